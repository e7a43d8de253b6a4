#pragma once

// What a producer moves at once through registers (sweep/strip.cuh), by the form in which it lies in global memory.
//
// Each struct has the same functions. `load(first, valid)` loads the access whose first element is at `first`; bit i of
// `valid` says whether its element i exists, and an element that does not is zero. `store(to, valid)` stores it at the
// byte `to` of shared memory, with fp32 rounded to tf32. kRegisters is how many registers it takes in between.
#include "sweep/strip.cuh"

namespace {

/// The elements of a word of shared memory: two of 16 bits, or one of fp32, rounded to tf32.
__device__ __forceinline__ uint32_t word_of(const Element* values) {
    if constexpr (kElementBytes == 4) {
        return ptx::float_to_tf32(__uint_as_float(values[0]));
    } else {
        return uint32_t{values[0]} | uint32_t{values[1]} << 16;
    }
}

/// A word of fp32.
struct FloatWord {
    static constexpr int kRegisters = 1;
    Element value;

    __device__ __forceinline__ void load(const Element* first, uint32_t valid) {
        value = valid != 0 ? __ldg(first) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t) const { ptx::store_shared(to, word_of(&value)); }
};

/// A word of two 16-bit elements that are kStep apart in memory.
template <int kStep>
struct StridedPair {
    static constexpr int kRegisters = 2;
    Element values[2];

    __device__ __forceinline__ void load(const Element* first, uint32_t valid) {
#pragma unroll
        for (int i = 0; i < 2; ++i) values[i] = valid >> i & 1 ? __ldg(first + i * kStep) : static_cast<Element>(0);
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t) const { ptx::store_shared(to, word_of(values)); }
};

/// A cell whose elements are kStep apart in memory. With two copies the second one begins one element further on.
template <int kVoxels, int kCopies, int64_t kStep>
struct StridedCell {
    static constexpr int kRegisters = kVoxels + kCopies - 1;
    Element values[kRegisters];

    __device__ __forceinline__ void load(const Element* first, uint32_t valid) {
#pragma unroll
        for (int i = 0; i < kRegisters; ++i)
            values[i] = valid >> i & 1 ? __ldg(first + i * kStep) : static_cast<Element>(0);
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

/// A cell that lies at a multiple of 16 bytes, and exists as a whole or not at all.
struct AlignedCell {
    static constexpr int kRegisters = 4;
    uint4 words;

    __device__ __forceinline__ void load(const Element* first, uint32_t valid) {
        words = valid != 0 ? __ldg(reinterpret_cast<const uint4*>(first)) : uint4{};
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t) const {
        uint32_t rounded[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if constexpr (kElementBytes == 4) rounded[i] = ptx::float_to_tf32(__uint_as_float(rounded[i]));
        ptx::store_shared(to, rounded);
    }
};

/// A piece of a row of 16-bit elements (SweepPiece): neighbours in memory, which may begin in the middle of a word. It
/// loads the aligned words that hold the piece, shifts them to pairs of its elements, clears the elements that belong
/// to other rows, and stores words of each phase and copy. With two phases and no second copy, elements 0 to 7 become
///
///     memory    . 0|1 2|3 4|5 6|7 .       words as they are aligned
///     pairs     0 1|2 3|4 5|6 7           shifted by half a word
///     phase 0   0 2|4 6      phase 1   1 3|5 7
///
/// kBegin is the element of 16 aligned bytes with which every piece begins, so that vectors of 16 bytes can be loaded,
/// or -1 if pieces differ in it; then single words are. With kWhole false elements are loaded one by one, because
/// the words around the piece may lie across an end of the tensor.
template <int kPhases, int kCopies, int kBegin, bool kWhole>
struct RowPiece {
    static constexpr SweepPiece kPiece = {kPhases, kCopies};
    static constexpr int kWords = kPiece.words(), kPairs = kPiece.pairs(), kLoaded = kPiece.loaded_words(kBegin);
    static constexpr int kRegisters = kLoaded + (kWhole && kBegin < 0 ? 1 : 0); // the shift, where it is no constant
    static constexpr int kFirst = kWhole && kBegin >= 0 ? kBegin / 2 : 0;       // the word that holds element 0
    uint32_t words[kLoaded];
    uint32_t shift; // in bits, from words to pairs of elements

    __device__ __forceinline__ void load(const Element* first, uint32_t valid) {
        if constexpr (!kWhole) {
            shift = 0;
#pragma unroll
            for (int i = 0; i < kLoaded; ++i) words[i] = element(first, valid, 2 * i);
#pragma unroll
            for (int i = 0; i < kPairs; ++i) words[i] |= element(first, valid, 2 * i + 1) << 16;
        } else if constexpr (kBegin >= 0) {
            shift = kBegin % 2 * 16;
            const auto* from = reinterpret_cast<const uint32_t*>(first - kBegin);
#pragma unroll
            for (int i = 0; i < kLoaded; i += 4) load_vector(from, i, valid != 0);
        } else {
            const auto address = reinterpret_cast<uint64_t>(first);
            const auto* from = reinterpret_cast<const uint32_t*>(address & ~uint64_t{3});
            shift = static_cast<uint32_t>(address & 2) * 8;
#pragma unroll
            for (int i = 0; i < kLoaded; ++i) words[i] = valid != 0 ? __ldg(from + i) : 0;
        }
    }
    __device__ __forceinline__ void store(uint32_t to, uint32_t valid) const {
        uint32_t pairs[kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i)
            pairs[i] = __funnelshift_r(word(i), word(i + 1), shift) & pair_mask(valid >> (2 * i));
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
    /// Loads the words from `first` on: a vector of 16 bytes, or a single word where the piece ends behind it.
    __device__ __forceinline__ void load_vector(const uint32_t* from, int first, bool exists) {
        if (kLoaded - first == 1) {
            words[first] = exists ? __ldg(from + first) : 0;
            return;
        }
        const uint4 vector = exists ? __ldg(reinterpret_cast<const uint4*>(from + first)) : uint4{};
        const uint32_t loaded[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) words[first + i] = loaded[i];
    }
    /// The i-th word from that of element 0 on. A word behind the loaded ones reaches only elements that are cleared.
    __device__ __forceinline__ uint32_t word(int i) const { return kFirst + i < kLoaded ? words[kFirst + i] : 0; }
    __device__ __forceinline__ static uint32_t element(const Element* first, uint32_t valid, int i) {
        return i < kPiece.elements() && (valid >> i & 1) ? uint32_t{__ldg(first + i)} : 0;
    }
    /// The mask of a pair of which the two lowest bits say which elements exist.
    __device__ __forceinline__ static uint32_t pair_mask(uint32_t valid) {
        return (valid & 1 ? 0xFFFFu : 0) | (valid & 2 ? 0xFFFF0000u : 0);
    }
};

} // namespace
