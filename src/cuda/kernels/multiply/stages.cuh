#pragma once

// How a consumer multiplies the stages of a slice, by either engine: waits for a stage of input and for the stages of
// weights that it meets, multiplies, and releases them.
#include "multiply/mma.cuh"
#include "multiply/wgmma.cuh"
#include "schedule/items.cuh"
#include "schedule/pipeline.cuh"

namespace {

/// Multiplies a tap group in kSummedSteps k steps, from the bytes `in` and `weights` of shared memory on.
template <int Group>
__device__ __forceinline__ void multiply_group(Accumulators& acc, const Geometry& geometry, uint32_t in,
                                               uint32_t weights) {
    if constexpr (kWgmma) {
        multiply_by_wgmma<Group>(acc, geometry, in, weights);
    } else {
        multiply_by_mma<Group>(acc, geometry, in, weights);
    }
}

/// Returns when the products of all tap groups but the last `kPending` are in the accumulators. Where warpgroups
/// alternate, each k step is a wgmma group of its own, so that these are counted. Behind a loop over several k steps,
/// the assembler counts the last one and its end as two, and a warpgroup waits for its own products while the other's
/// are multiplied; more of both in line were no faster.
template <int kPending>
__device__ __forceinline__ void wait_products() {
    if constexpr (kWgmma) ptx::wgmma_wait<kGathered ? kPending * kSteps : kPending>();
}

/// Releases a stage. Each warp arrives once; each of its lanes does where lanes have read the stage themselves.
__device__ __forceinline__ void release(uint32_t barrier) {
    if (threadIdx.x % 32 < kArrivals) ptx::barrier_arrive(barrier);
}

/// Weights that a CTA packs for itself stay where they are: they are neither waited for nor released.
__device__ __forceinline__ void wait_weights(const Pipeline& pipe, PipelineState w) {
    if constexpr (!kOwnWeights) pipe.weights.wait_full(w);
}
__device__ __forceinline__ void release_weights(const Pipeline& pipe, PipelineState w) {
    if constexpr (!kOwnWeights) release(pipe.weights.empty(w));
}

/// Multiplies stage `s` of input with all tap groups of all passes of a row set, from number `Index` on. `w` is the
/// stage of weights. `first` says that no products are under way. While one tap group is multiplied, the weights of the
/// one before are released, and with the first tap group the stage of input before. Calls `loaded` when the weights of
/// the last tap group are there.
template <int Set, int Index, typename Loaded>
__device__ __forceinline__ void multiply_stage(Accumulators& acc, const Pipeline& pipe, int s, PipelineState& w,
                                               bool first, Loaded loaded) {
    constexpr int kPass = kSetPass[Set] + Index / kTapGroups;
    if constexpr (kPass < kSetPass[Set + 1]) {
        wait_weights(pipe, w);
        if constexpr (Index + 1 == (kSetPass[Set + 1] - kSetPass[Set]) * kTapGroups) loaded();
        const uint32_t in = pipe.in.at(s) + pass_shift(pipe.geometry, kPass) * kPositionBytes;
        multiply_group<Index % kTapGroups>(acc, pipe.geometry, in, pipe.weights.at(w));
        wait_products<1>();
        if (Index > 0 || !first) release_weights(pipe, pipe.weights.before(w));
        if (Index == 0 && !first && !kRetainsSlices) release(pipe.in.empty(s - 1));
        pipe.weights.next(w);
        multiply_stage<Set, Index + 1>(acc, pipe, s, w, first, loaded);
    }
}

/// Multiplies one pass in split fp32, from tap group `Group` on. Tensor cores cut off what an accumulator has no room
/// for, always towards zero: after hundreds of products more is lost than fp32 loses by rounding. So a tap group has
/// accumulators of its own, `group`, for few k steps at a time, which are then added, rounded. The first wgmma replaces
/// what was in them.
template <int Group>
__device__ __forceinline__ void multiply_pass_rounded(Accumulators& acc, Accumulators& group, const Pipeline& pipe,
                                                      uint32_t in, PipelineState& w) {
    if constexpr (Group < kTapGroups) {
        wait_weights(pipe, w);
#pragma unroll 1
        for (int step = 0; step < kSteps; step += kSummedSteps) {
            if constexpr (!kWgmma) clear(group);
            multiply_group<Group>(group, pipe.geometry, in + step * kStepBytes,
                                  pipe.weights.at(w) + step * weight_step_bytes(Group));
            wait_products<0>();
            if (step + kSummedSteps == kSteps) release_weights(pipe, w);
            add<Group>(acc, group);
        }
        pipe.weights.next(w);
        multiply_pass_rounded<Group + 1>(acc, group, pipe, in, w);
    }
}

/// Whether the accumulators of a tap group are cleared before the first wgmma replaces them. Before NVRTC 12.9 the
/// assembler serialises products in accumulators that nobody has written.
#if defined(__CUDACC_RTC__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1209
constexpr bool kClearsReplaced = true;
#else
constexpr bool kClearsReplaced = false;
#endif

/// Multiplies stage `s` of input in split fp32, in all passes of the item.
__device__ __forceinline__ void multiply_stage_rounded(Accumulators& acc, const Pipeline& pipe, const Item& item, int s,
                                                       PipelineState& w) {
    Accumulators group;
    if constexpr (kWgmma && kClearsReplaced) clear(group);
    const int first = item.first_pass(), passes = item.passes();
#pragma unroll 1
    for (int pass = first; pass < first + passes; ++pass)
        multiply_pass_rounded<0>(acc, group, pipe, pipe.in.at(s) + pass_shift(pipe.geometry, pass) * kPositionBytes, w);
    release(pipe.in.empty(s));
}

/// The stages of a slice's input, where they follow one another.
struct ConsecutiveStages {
    int& s;
    __device__ __forceinline__ int at() const { return s; }
    __device__ __forceinline__ void next() { ++s; }
    /// Releases the last stage, when its products are in the accumulators. Each other one was released while the next
    /// one was multiplied.
    __device__ __forceinline__ void end(const Pipeline& pipe) const { release(pipe.in.empty(s - 1)); }
};

/// Multiplies `slices` input slices, whose stages `stages` names one after another. `w` is the stage of weights. Calls
/// `loaded` when all that is left to multiply is in shared memory, and all products but those of the last tap group are
/// under way.
template <int Set, typename Stages, typename Loaded>
__device__ __forceinline__ void multiply_slices(Accumulators& acc, const Pipeline& pipe, const Item& item, int slices,
                                                Stages stages, PipelineState& w, Loaded loaded) {
    if constexpr (Set + 1 < kRowSets && kParts == 1) {
        if (item.row_set != Set) return multiply_slices<Set + 1>(acc, pipe, item, slices, stages, w, loaded);
    }
#pragma unroll 1
    for (int chunk = 0; chunk < slices * kChunks; ++chunk, stages.next()) {
        const int s = stages.at();
        pipe.in.wait_full(s);
        if constexpr (kParts == 2) {
            multiply_stage_rounded(acc, pipe, item, s, w);
        } else {
            multiply_stage<Set, 0>(acc, pipe, s, w, chunk == 0, [&] {
                if (chunk + 1 == slices * kChunks) loaded();
            });
        }
    }
    if constexpr (kParts == 1) {
        wait_products<0>();
        release_weights(pipe, pipe.weights.before(w));
        stages.end(pipe);
    }
}

} // namespace
