#pragma once

// How a producer moves elements of a tensor from global to shared memory: cells, words or pieces of rows, through
// registers or by copies. Where there is no voxel it stores zeros, and fp32 is rounded to tf32 unless it is copied.
#include "sweep/constants.cuh"

namespace {

using Element = typename Unsigned<kElementBytes>::Type;
constexpr int kCellVoxels = kPlane.cell_voxels();

/// The elements of a word of shared memory.
__device__ __forceinline__ uint32_t word_of(const Element* values) {
    if constexpr (kElementBytes == 4) {
        return ptx::float_to_tf32(__uint_as_float(values[0]));
    } else {
        return uint32_t{values[0]} | uint32_t{values[1]} << 16;
    }
}

/// Two elements of a word, kStep apart in memory.
template <int kStep>
struct PairElements {
    static constexpr int kRegisters = 2;
    Element values[2];

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
#pragma unroll
        for (int i = 0; i < 2; ++i) values[i] = exist >> i & 1 ? __ldg(first + i * kStep) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t) const { ptx::store_shared(to, word_of(values)); }
};

/// A word of fp32.
struct WordElement {
    static constexpr int kRegisters = 1;
    Element value;

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
        value = exist != 0 ? __ldg(first) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t) const { ptx::store_shared(to, word_of(&value)); }
};

/// The elements of a cell, kStep apart in memory, and of a second one that begins one element further on.
template <int kVoxels, int kCopies, int64_t kStep>
struct CellElements {
    static constexpr int kRegisters = kVoxels + kCopies - 1;
    Element values[kRegisters];

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
#pragma unroll
        for (int i = 0; i < kRegisters; ++i)
            values[i] = exist >> i & 1 ? __ldg(first + i * kStep) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t) const {
#pragma unroll
        for (int copy = 0; copy < kCopies; ++copy) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = word_of(values + copy + i * kPlane.word_voxels());
            ptx::store_shared(to + copy * kPlane.copy_bytes(), words);
        }
    }
};

/// A cell that exists as a whole or not at all, and lies at a multiple of 16 bytes.
struct AlignedCell {
    static constexpr int kRegisters = 4;
    uint4 words;

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
        words = exist != 0 ? __ldg(reinterpret_cast<const uint4*>(first)) : uint4{};
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t) const {
        uint32_t rounded[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if constexpr (kElementBytes == 4) rounded[i] = ptx::float_to_tf32(__uint_as_float(rounded[i]));
        ptx::store_shared(to, rounded);
    }
};

/// A piece of a row. Its elements are loaded as the words of memory that hold them, whose other elements belong to
/// other rows and are replaced by zeros: vectors of 16 bytes, if it is known that the piece begins with element kBegin
/// of one, else single words (-1). Where they may lie across an end of the tensor, elements are loaded one by one
/// (kWhole is false).
template <int kPhases, int kCopies, int kBegin, bool kWhole>
struct RowPiece {
    static constexpr SweepPiece kPiece = {kPhases, kCopies};
    static constexpr int kWords = kPiece.words(), kPairs = kPiece.pairs(), kRegisters = kPiece.loaded_words(kBegin);
    static constexpr int kFirst = kWhole && kBegin >= 0 ? kBegin / 2 : 0; // word
    uint32_t words[kRegisters];
    uint32_t shift; // in bits, from words to pairs of elements

    __device__ __forceinline__ void load(const Element* first, uint32_t exist) {
        if constexpr (!kWhole) {
            shift = 0;
#pragma unroll
            for (int i = 0; i < kRegisters; ++i) words[i] = element(first, exist, 2 * i);
#pragma unroll
            for (int i = 0; i < kPairs; ++i) words[i] |= element(first, exist, 2 * i + 1) << 16;
        } else if constexpr (kBegin >= 0) {
            shift = kBegin % 2 * 16;
            const auto* from = reinterpret_cast<const uint32_t*>(first - kBegin);
#pragma unroll
            for (int i = 0; i < kRegisters; i += 4) load_vector(from, i, exist != 0);
        } else {
            const auto address = reinterpret_cast<uint64_t>(first);
            const auto* from = reinterpret_cast<const uint32_t*>(address & ~uint64_t{3});
            shift = static_cast<uint32_t>(address & 2) * 8;
#pragma unroll
            for (int i = 0; i < kRegisters; ++i) words[i] = exist != 0 ? __ldg(from + i) : 0;
        }
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t exist) const {
        uint32_t pairs[kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            pairs[i] = __funnelshift_r(word(i), word(i + 1), shift) & pair_mask(exist >> (2 * i));
#pragma unroll
        for (int phase = 0; phase < kPhases; ++phase)
#pragma unroll
            for (int copy = 0; copy < kCopies; ++copy) {
                uint32_t voxels[kWords];
#pragma unroll
                for (int i = 0; i < kWords; ++i) {
                    const int at = (2 * i + copy) * kPhases + phase, next = at + kPhases;
                    voxels[i] = __byte_perm(pairs[at / 2], pairs[next / 2],
                                            (at % 2 == 0 ? 0x10 : 0x32) | (next % 2 == 0 ? 0x5400 : 0x7600));
                }
                ptx::store_shared(to + phase * kPlane.phase_bytes() + copy * kPlane.copy_bytes(), voxels);
            }
    }

private:
    /// Loads a vector, or the only word that is left of one.
    __device__ __forceinline__ void load_vector(const uint32_t* from, int first, bool exists) {
        if (kRegisters - first == 1) {
            words[first] = exists ? __ldg(from + first) : 0;
            return;
        }
        const uint4 vector = exists ? __ldg(reinterpret_cast<const uint4*>(from + first)) : uint4{};
        const uint32_t loaded[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) words[first + i] = loaded[i];
    }
    /// What is shifted only into elements that are masked may be missing.
    __device__ __forceinline__ uint32_t word(int i) const { return kFirst + i < kRegisters ? words[kFirst + i] : 0; }
    __device__ __forceinline__ static uint32_t element(const Element* first, uint32_t exist, int i) {
        return i < kPiece.elements() && (exist >> i & 1) ? uint32_t{__ldg(first + i)} : 0;
    }
    /// Ones where the two lowest bits are set.
    __device__ __forceinline__ static uint32_t pair_mask(uint32_t exist) {
        return (exist & 1 ? 0xFFFFu : 0) | (exist & 2 ? 0xFFFF0000u : 0);
    }
};

/// Bit i: whether column first + i · step of a row of `extent` voxels exists.
template <int kCount>
__device__ __forceinline__ uint32_t existing(int first, int step, int extent) {
    uint32_t mask = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
        mask |= static_cast<uint32_t>(static_cast<unsigned>(first + i * step) < static_cast<unsigned>(extent)) << i;
    return mask;
}

/// Threads that share a place, where there are more threads than places. Each has every kSharers-th of its members.
template <int kPlaces>
constexpr int kSharers = kPlaces < kProducers ? kProducers / kPlaces : 1;

/// Calls body(place, first) for the places of a thread: `first` is its first member of the place.
template <int kPlaces, typename Body>
__device__ __forceinline__ void for_each_place(int thread, const Body& body) {
#pragma unroll 1
    for (int i = thread; i < kPlaces * kSharers<kPlaces>; i += kProducers) body(i % kPlaces, i / kPlaces);
}

/// A place has a cell, a word or a piece of a row for each member: a channel or a row. Members from `begin` to `end`
/// exist.
struct PlaceCells {
    const Element* from; // of member 0
    uint32_t step;       // bytes from a member to the next
    uint32_t exist;      // the elements of a member that exist, by bits
    int begin, end;
    uint32_t to; // of member 0

    __device__ __forceinline__ const Element* member(int number) const {
        return static_cast<const Element*>(ptx::steps_behind(from, step, number));
    }
};

/// How the members of a place are passed: every kStep-th one. Where kAllOrNone, all of them exist or none does.
template <int kCount, int kStepOf, int kToStepOf, bool kAllOrNoneOf>
struct Members {
    static constexpr int kMembers = kCount, kStep = kStepOf, kOfThread = (kCount + kStepOf - 1) / kStepOf;
    static constexpr int kToStep = kToStepOf; // bytes of shared memory from a member to the next

    __device__ __forceinline__ static bool exists(const PlaceCells& cells, int member) {
        return kAllOrNoneOf ? cells.end > 0 : member >= cells.begin && member < cells.end;
    }
};

/// Moves members of a place from `first` on, batch by batch: many loads are under way before the first store.
template <typename Cell, typename Of>
__device__ __forceinline__ void move_cells(const PlaceCells& cells, int first) {
    constexpr int kFit = kLoadedRegisters / Cell::kRegisters, kBatches = (Of::kOfThread + kFit - 1) / kFit;
    constexpr int kBatch = (Of::kOfThread + kBatches - 1) / kBatches;
    constexpr bool kFull = Of::kMembers % (kBatch * Of::kStep) == 0;
    const Element* from = cells.member(first);
    uint32_t to = cells.to + first * Of::kToStep;
#pragma unroll 1
    for (int member = first; member < Of::kMembers; member += kBatch * Of::kStep) {
        const PlaceCells rest = {from, cells.step, 0, 0, 0, 0};
        Cell batch[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
            const int at = member + i * Of::kStep;
            const bool exists = (kFull || i == 0 || at < Of::kMembers) && Of::exists(cells, at);
            batch[i].load(rest.member(i * Of::kStep), exists ? cells.exist : 0);
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
            if (kFull || i == 0 || member + i * Of::kStep < Of::kMembers)
                batch[i].store(to + i * (Of::kStep * Of::kToStep), cells.exist);
        from = rest.member(kBatch * Of::kStep);
        to += kBatch * Of::kStep * Of::kToStep;
    }
}

/// The same by copies of 4 or 16 bytes for each member, which arrive some time later.
template <int kBytes, typename Of>
__device__ __forceinline__ void copy_members(const PlaceCells& cells, int first) {
    uint32_t to = cells.to + first * Of::kToStep;
#pragma unroll 4
    for (int member = first; member < Of::kMembers; member += Of::kStep) {
        const bool exists = Of::exists(cells, member) && cells.exist != 0;
        if constexpr (kBytes == 16) {
            ptx::copy_async_part(to, cells.member(member), exists ? 16 : 0);
        } else {
            ptx::copy_async_word(to, cells.member(member), exists ? 4 : 0);
        }
        to += Of::kStep * Of::kToStep;
    }
}

} // namespace
