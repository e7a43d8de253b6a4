#pragma once

// What a lane knows of the outputs that it stores: the sums that it has, and where they belong. All that can be known
// for a whole work item is kept in a few registers, so that a store is little more than its address.
#include "multiply/multiply.cuh"
#include "store/slice.cuh"

namespace {

constexpr int kHwPhases = kRowPhases * kStrideW; // of a work item
constexpr int kLaneColumns = kCoTile / 4;        // channels of a slot that a lane has
constexpr int kPlaces = 2 * kMTiles;             // positions that it has

/// The channel of one of a lane's columns, counted from the work item's first.
__device__ __forceinline__ int lane_channel(int column) {
    return column / kLaneChannels * (4 * kLaneChannels) + threadIdx.x % 4 * kLaneChannels + column % kLaneChannels;
}

/// The sum at a place that is a constant once the loops are unrolled; 0 where there are no taps.
template <int Slot>
__device__ __forceinline__ float sum_at(const Accumulators& acc, int place, int phase, int column) {
    if (Slot < 0 || kAccPhase[phase] < 0) return 0.f;
    const int first = (kAccPhase[phase] < 0 ? 0 : kAccPhase[phase]) * (kN / 2) + (Slot < 0 ? 0 : Slot) * kCoTile / 2;
    return acc.sums[place / 2][first + column / 2 * 4 + place % 2 * 2 + column % 2];
}

/// Clears where the sums are: the compiler would rather make copies of those that are still to be stored.
template <int Slot>
__device__ __forceinline__ void clear_slot(Accumulators& acc) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int phase = 0; phase < kAccPhases; ++phase)
#pragma unroll
            for (int i = 0; i < kCoTile / 2; ++i) ptx::clear(acc.sums[m][phase * (kN / 2) + Slot * kCoTile / 2 + i]);
}

/// The outputs of a lane's positions, which are the same in every slice and channel of a work item.
struct Places {
    int offset[kPlaces]; // of phase (0, 0), counted from the slice's first output; negative where there is none
    uint32_t cut;        // a bit for each place that lacks phases h, then one for each that lacks phases w

    __device__ __forceinline__ bool exists(int place, int h) const {
        return offset[place] >= 0 && (h == 0 || !(cut >> place & 1) || h < kLastRows);
    }
    __device__ __forceinline__ int columns(int place) const {
        return !kAligned && cut >> (kPlaces + place) & 1 ? kLastColumns : kStrideW;
    }
};

/// Makes the compiler believe that the value may be another one from here on. It would keep what follows from it in
/// registers over all slices, and leave none for the sums.
template <typename Integer>
__device__ __forceinline__ void forget(Integer& value) {
    asm volatile("" : "+r"(value));
}

__device__ __forceinline__ void forget(Places& places) {
    forget(places.cut);
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) forget(places.offset[i]);
}

/// `row` is the lane's one of the 8 rows of a core.
__device__ __forceinline__ Places places_of(const StreamArgs& args, const Item& item, int row) {
    Places places;
    places.cut = 0;
    int thread = threadIdx.x;
    forget(thread);
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
        const Voxel voxel = voxel_at(row_position(thread, i / 2, thread / 32 % 4 * 16 + i % 2 * 8 + row));
        const int h = (item.q_h + voxel.row) * kStrideH + item.first_row(), w = (item.q_w + voxel.column) * kStrideW;
        const bool exists = voxel.row < kTileH && voxel.column < kTileW && h < args.dst_h && w < args.dst_w &&
                            (kImages == 1 || (voxel.image < kImages && item.n + voxel.image / kSlices < args.batch));
        const int image = kImages == 1 ? 0 : voxel.image * static_cast<int>(image_stride(args));
        places.offset[i] = exists ? image + (h * args.dst_w + w) * (kChannelsLast ? kChannels : 1) : -1;
        if (h + kStrideH > args.dst_h) places.cut |= 1u << i;
        if (w + kStrideW > args.dst_w) places.cut |= 1u << (kPlaces + i);
    }
    return places;
}

/// Which outputs of a lane's positions exist: a bit for each place and phase.
struct Existing {
    static constexpr int kWords = (kPlaces * kHwPhases + 31) / 32;
    uint32_t words[kWords];

    __device__ __forceinline__ bool has(int place, int phase) const {
        const int bit = place * kHwPhases + phase;
        return words[bit / 32] >> bit % 32 & 1;
    }
    __device__ __forceinline__ void enter(const Places& places) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) words[i] = 0;
#pragma unroll
        for (int bit = 0; bit < kPlaces * kHwPhases; ++bit) {
            const int place = bit / kHwPhases, h = bit % kHwPhases / kStrideW, w = bit % kStrideW;
            if (places.exists(place, h) && w < places.columns(place)) words[bit / 32] |= 1u << bit % 32;
        }
    }
};

/// What a lane keeps for its stores: where its own sums belong, and those that it stores itself.
struct Storing {
    static constexpr bool kTrades = kStore == kStorePairs || kStore == kStoreQuads;
    Places own, stored;
    Existing existing; // where outputs go through shared memory
    int staged = 0;    // buffers that went through shared memory so far
    __device__ __forceinline__ void enter(const StreamArgs& args, const Item& item) {
        const int lane = threadIdx.x % 32, t = lane % 4;
        own = places_of(args, item, lane / 4);
        if constexpr (kStore == kStoreStaged) existing.enter(own);
        if constexpr (kTrades) stored = places_of(args, item, kStore == kStorePairs ? 2 * t : t % 2 * 8 + t / 2 * 4);
    }
    __device__ __forceinline__ void forget() {
        ::forget(own);
        if constexpr (kTrades) ::forget(stored);
        if constexpr (kStore == kStoreStaged) {
#pragma unroll
            for (uint32_t& word : existing.words) ::forget(word);
        }
    }
};

/// Where sums take nearly all registers, the bias of a column is not loaded before its turn.
__device__ __forceinline__ float lane_bias(const Output& output, const Slice& slice, int column) {
    constexpr bool kTight = kMTiles * kAccPhases * kN / 2 >= 188 && kLaneColumns >= 8;
    int c = lane_channel(column);
    if constexpr (kTight) forget(c);
    return slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
}

} // namespace
