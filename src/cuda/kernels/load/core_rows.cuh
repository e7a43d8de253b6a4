#pragma once

// Rows of core matrices, 16 bytes of channels of one position, and where the elements of raw stages belong.
#include "schedule/constants.cuh"

namespace {

constexpr int kRearrangingThreads = kRearrangingWarps * 32;

/// Which input plane of a dimension has an element, by its place among those that are read, and where. `at` counts from
/// the first position of plane 0; what lies before it counts as far behind the last.
template <int Stride>
struct PlaneElement {
    int place = -1;
    uint32_t position;
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

/// The elements of one row of a core matrix, as words.
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

/// Stores a row of a core matrix: rounded to tf32, or its two parts where fp32 is split, or as it is.
__device__ __forceinline__ void store_core_row(uint32_t to, const CoreRow& row) {
    if constexpr (kParts == 2 || (kWordChannels == 1 && (kSource == Source::global || kRanges))) {
        store_parts(to, kPartBytes, row);
    } else {
        ptx::store_shared(to, row.words);
    }
}

} // namespace
