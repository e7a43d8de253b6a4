#pragma once

// What a lane of the streamed form knows of its outputs: which accumulators it has, and where their results belong in
// an output slice. That is the same for all slices of a work item, and is kept in a few registers, so that a store is
// little more than the computation of its address.
#include "multiply/accumulators.cuh"
#include "schedule/positions.cuh"
#include "store/slice.cuh"

namespace {

constexpr int kItemPhases = kRowPhases * kStrideW; // phases (h, w) of a work item
constexpr int kLaneColumns = kTileChannels / 4;    // channels of a slot that a lane has
constexpr int kLanePositions = 2 * kMTiles;        // positions that a lane has

/// The channel of one of a lane's columns, counted from the work item's first.
__device__ __forceinline__ int lane_channel(int column) {
    return column / kLaneChannels * (4 * kLaneChannels) + threadIdx.x % 4 * kLaneChannels + column % kLaneChannels;
}

/// The accumulator of a position, phase and column in a slot. Once loops are unrolled it is one register; it is 0 where
/// there are no taps.
template <int Slot>
__device__ __forceinline__ float accumulator_at(const Accumulators& acc, int position, int phase, int column) {
    if (Slot < 0 || kPhaseAccumulator[phase] < 0) return 0.f;
    const int first = (kPhaseAccumulator[phase] < 0 ? 0 : kPhaseAccumulator[phase]) * (kColumns / 2) +
                      (Slot < 0 ? 0 : Slot) * kTileChannels / 2;
    return acc.values[position / 2][first + column / 2 * 4 + position % 2 * 2 + column % 2];
}

/// Clears the accumulators of a slot where they are: the compiler would rather copy those that are still to be stored.
template <int Slot>
__device__ __forceinline__ void clear_slot(Accumulators& acc) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int phase = 0; phase < kAccumulatorPhases; ++phase)
#pragma unroll
            for (int i = 0; i < kTileChannels / 2; ++i)
                ptx::clear(acc.values[m][phase * (kColumns / 2) + Slot * kTileChannels / 2 + i]);
}

/// Where the outputs of a lane's positions belong, which is the same in every slice and channel of a work item.
struct LaneOffsets {
    int offset[kLanePositions]; // of phase (0, 0), counted from the slice's first output; negative where there is none
    uint32_t cut;               // bits: for each position whether it lacks phases h, then whether it lacks phases w

    __device__ __forceinline__ bool exists(int position, int h) const {
        return offset[position] >= 0 && (h == 0 || !(cut >> position & 1) || h < kLastRowPhases);
    }
    __device__ __forceinline__ int columns(int position) const {
        return !kAligned && cut >> (kLanePositions + position) & 1 ? kLastColumnPhases : kStrideW;
    }
};

/// Makes the compiler believe that the value may be another one from here on. Otherwise it would keep what follows from
/// the value in registers over all slices, and leave none for the accumulators.
template <typename Integer>
__device__ __forceinline__ void make_opaque(Integer& value) {
    asm volatile("" : "+r"(value));
}

__device__ __forceinline__ void make_opaque(LaneOffsets& offsets) {
    make_opaque(offsets.cut);
#pragma unroll
    for (int i = 0; i < kLanePositions; ++i) make_opaque(offsets.offset[i]);
}

/// The offsets of the positions that a lane stores: those at `row` of the 8 rows of each core matrix.
__device__ __forceinline__ LaneOffsets lane_offsets(const TensorCoreArguments& args, const Item& item, int row) {
    const Geometry geometry(args);
    LaneOffsets offsets;
    offsets.cut = 0;
    int thread = threadIdx.x;
    make_opaque(thread);
#pragma unroll
    for (int i = 0; i < kLanePositions; ++i) {
        const Voxel voxel = voxel_at(geometry, row_position(thread, i / 2, thread / 32 % 4 * 16 + i % 2 * 8 + row));
        const int h = (item.q_h + voxel.row) * kStrideH + item.first_row(), w = (item.q_w + voxel.column) * kStrideW;
        const bool exists = voxel.row < geometry.tile_h() && voxel.column < geometry.tile_w() &&
                            h < args.out_extents.h && w < args.out_extents.w &&
                            (geometry.images() == 1 ||
                             (voxel.image < geometry.images() && item.n + voxel.image / kSlices < args.batch));
        const int image = geometry.images() == 1 ? 0 : voxel.image * static_cast<int>(image_stride(args));
        offsets.offset[i] = exists ? image + (h * args.out_extents.w + w) * (kChannelsLast ? kAllOutChannels : 1) : -1;
        if (h + kStrideH > args.out_extents.h) offsets.cut |= 1u << i;
        if (w + kStrideW > args.out_extents.w) offsets.cut |= 1u << (kLanePositions + i);
    }
    return offsets;
}

/// Which outputs of a lane's positions exist: a bit for each position and phase.
struct LaneMask {
    static constexpr int kWords = (kLanePositions * kItemPhases + 31) / 32;
    uint32_t words[kWords];

    __device__ __forceinline__ bool has(int position, int phase) const {
        const int bit = position * kItemPhases + phase;
        return words[bit / 32] >> bit % 32 & 1;
    }
    __device__ __forceinline__ void enter(const LaneOffsets& offsets) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) words[i] = 0;
#pragma unroll
        for (int bit = 0; bit < kLanePositions * kItemPhases; ++bit) {
            const int position = bit / kItemPhases, h = bit % kItemPhases / kStrideW, w = bit % kStrideW;
            if (offsets.exists(position, h) && w < offsets.columns(position)) words[bit / 32] |= 1u << bit % 32;
        }
    }
};

/// What a lane keeps for its stores. Where lanes exchange outputs, those that it stores are not its own accumulators'.
struct LaneOutputs {
    static constexpr bool kExchanges = kStore == Store::pairs || kStore == Store::quads;
    LaneOffsets own;    // of its own accumulators' outputs
    LaneOffsets stored; // of the outputs that it stores, where lanes exchange them
    LaneMask mask;      // of its own outputs, where these pass through shared memory
    int staged = 0;     // buffers that passed through shared memory so far
    __device__ __forceinline__ void enter(const TensorCoreArguments& args, const Item& item) {
        const int lane = threadIdx.x % 32, t = lane % 4;
        own = lane_offsets(args, item, lane / 4);
        if constexpr (kStore == Store::bulk_rows) mask.enter(own);
        if constexpr (kExchanges)
            stored = lane_offsets(args, item, kStore == Store::pairs ? 2 * t : t % 2 * 8 + t / 2 * 4);
    }
    __device__ __forceinline__ void make_opaque() {
        ::make_opaque(own);
        if constexpr (kExchanges) ::make_opaque(stored);
        if constexpr (kStore == Store::bulk_rows) {
#pragma unroll
            for (uint32_t& word : mask.words) ::make_opaque(word);
        }
    }
};

/// The bias of one of a lane's columns. Where accumulators take nearly all registers, the compiler must not load it
/// before it is needed.
__device__ __forceinline__ float lane_bias(const Output& output, const StoredSlice& slice, int column) {
    constexpr bool kTight = kMTiles * kAccumulatorPhases * kColumns / 2 >= 188 && kLaneColumns >= 8;
    int c = lane_channel(column);
    if constexpr (kTight) make_opaque(c);
    return slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
}

} // namespace
