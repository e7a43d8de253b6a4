#pragma once

// How a producer thread divides a slice into accesses.
//
// An *access* is what a thread loads and stores, or copies, at once: a word, a cell, a chunk or a piece of a row
// (sweep/access.cuh). A *strip* is the same access in each channel, or in each row: a constant distance apart both in
// global and in shared memory. A thread computes the place of a strip once and steps from access to access. Threads
// beside one another have strips beside one another in memory, so that a warp reads whole sectors.
//
//                   thread 0   thread 1   thread 2
//     channel 0     access     access     access    …      a strip is a column of this picture,
//     channel 1     access     access     access    …      from_step bytes apart in global memory
//     …                                                    and kToStep bytes apart in shared memory
#include "sweep/constants.cuh"

namespace {

using Element = typename Unsigned<kElementBytes>::Type;

/// Accesses of a strip, from `begin` to the one before `end`.
struct AccessRange {
    int begin, end;
};

/// The same access in each channel, or in each row. It exists in those of `existing`.
struct Strip {
    const Element* from; // of access 0
    uint32_t from_step;  // bytes of global memory from an access to the next
    uint32_t valid;      // bit i: whether element i of each access exists
    AccessRange existing;
    uint32_t to; // of access 0

    __device__ __forceinline__ const Element* access(int number) const {
        return static_cast<const Element*>(ptx::steps_behind(from, from_step, number));
    }
};

/// Threads that share a strip, where a slice has fewer strips than there are producers.
template <int kStrips>
constexpr int kSharers = kStrips < kProducers ? kProducers / kStrips : 1;

/// How a thread passes the kCountOf accesses of a strip: every kStepOf-th one, as so many threads share the strip.
/// kToStepOf is the bytes of shared memory from an access to the next. kAllOrNoneOf promises that all accesses exist or
/// none does.
template <int kCountOf, int kStepOf, int kToStepOf, bool kAllOrNoneOf>
struct Accesses {
    static constexpr int kCount = kCountOf, kStep = kStepOf, kToStep = kToStepOf;
    static constexpr int kOfThread = (kCount + kStep - 1) / kStep;

    __device__ __forceinline__ static bool exists(const Strip& strip, int access) {
        const AccessRange& existing = strip.existing;
        return kAllOrNoneOf ? existing.end > 0 : access >= existing.begin && access < existing.end;
    }
};

/// Calls body(strip, first) for each strip of a thread; `first` is the first access of the strip that is the thread's.
template <int kStrips, typename Body>
__device__ __forceinline__ void for_each_strip(int thread, const Body& body) {
#pragma unroll 1
    for (int i = thread; i < kStrips * kSharers<kStrips>; i += kProducers) body(i % kStrips, i / kStrips);
}

/// Moves a thread's accesses of a strip through registers, from access `first` on. They come in batches as large as
/// registers allow: all loads of a batch are under way before its first store.
template <typename Access, typename Of>
__device__ __forceinline__ void move_strip(const Strip& strip, int first) {
    constexpr int kFit = kLoadedRegisters / Access::kRegisters, kBatches = (Of::kOfThread + kFit - 1) / kFit;
    constexpr int kBatch = (Of::kOfThread + kBatches - 1) / kBatches;
    constexpr bool kFull = Of::kCount % (kBatch * Of::kStep) == 0;
    const Element* from = strip.access(first);
    uint32_t to = strip.to + first * Of::kToStep;
#pragma unroll 1
    for (int begin = first; begin < Of::kCount; begin += kBatch * Of::kStep) {
        const Strip rest = {from, strip.from_step, 0, {0, 0}, 0};
        Access batch[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
            const int at = begin + i * Of::kStep;
            const bool exists = (kFull || i == 0 || at < Of::kCount) && Of::exists(strip, at);
            batch[i].load(rest.access(i * Of::kStep), exists ? strip.valid : 0);
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (kFull || i == 0 || begin + i * Of::kStep < Of::kCount)
                batch[i].store(to + i * (Of::kStep * Of::kToStep), strip.valid);
        from = rest.access(kBatch * Of::kStep);
        to += kBatch * Of::kStep * Of::kToStep;
    }
}

/// Moves a thread's accesses of a strip by cp.async, 4 or 16 bytes each, zeros for what does not exist. They arrive
/// some time later.
template <int kBytes, typename Of>
__device__ __forceinline__ void copy_strip(const Strip& strip, int first) {
    uint32_t to = strip.to + first * Of::kToStep;
#pragma unroll 4
    for (int access = first; access < Of::kCount; access += Of::kStep) {
        const bool exists = Of::exists(strip, access) && strip.valid != 0;
        if constexpr (kBytes == 16) {
            ptx::copy_async_part(to, strip.access(access), exists ? 16 : 0);
        } else {
            ptx::copy_async_word(to, strip.access(access), exists ? 4 : 0);
        }
        to += Of::kStep * Of::kToStep;
    }
}

} // namespace
