#pragma once

// What all ways to rearrange input share: rows of core matrices, which are 16 bytes of channels of one position, and
// which input plane an element of the input belongs to.
#include "schedule/constants.cuh"

namespace {

constexpr int kRearrangingThreads = kRearrangingWarps * 32;

/// Where an element of the input belongs along a dimension. `at` counts elements from position 0 of input plane 0 on;
/// one before it wraps around to a position far behind the last. With stride 2:
///
///     at           0 1 2 3 4 5
///     plane        0 1 0 1 0 1
///     position     0 0 1 1 2 2
template <int Stride>
struct PlaneElement {
    int place = -1;    // of the plane among those that taps read; -1 if none reads it
    uint32_t position; // in the plane
    template <int Count>
    __device__ __forceinline__ PlaneElement(const int (&planes)[Count], uint32_t at) : position(at / Stride) {
        if constexpr (Count == Stride) {
            place = at % Stride; // all are read
        } else {
#pragma unroll
            for (int i = 0; i < Count; ++i) place = at % Stride == planes[i] ? i : place;
        }
    }
    __device__ __forceinline__ bool below(uint32_t count) const { return place >= 0 && position < count; }
};

/// The row of a core matrix whose channels load_channel(i) gives.
template <typename Load>
__device__ __forceinline__ CoreRow make_row(Load load_channel) {
    CoreRow row;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (kWordChannels == 1) {
            row.words[i] = load_channel(i);
        } else {
            row.words[i] = load_channel(2 * i) | load_channel(2 * i + 1) << 16;
        }
    }
    return row;
}

/// Stores a row of a core matrix: as its parts where fp32 is split, rounded to tf32 where TMA has not done so, or as it
/// is.
__device__ __forceinline__ void store_core_row(uint32_t to, const CoreRow& row) {
    if constexpr (kParts == 2 || (kWordChannels == 1 && (kSource == Source::global || kRanges))) {
        store_parts(to, kPartBytes, row);
    } else {
        ptx::store_shared(to, row.words);
    }
}

} // namespace
