#pragma once

// Finished sums become outputs: bias, epilogue, rounding, and the way from registers to the tensor.
//
// kStore says which way: kStoreVoxel where the phases of a voxel along w are one aligned access (always at stride 1),
// kStoreVoxelPairs where two voxels are, kStoreTurned where neither is, kStoreChannels where channels are contiguous.
#include "output.cuh"
#include "stream_multiply.cuh"

namespace {

constexpr int kChannels = kGroups * kCo; // of dst
constexpr int kHwPhases = kStrideH * kStrideW;
// A warp turns its sums around in shared memory: 8 channels of 16 voxels for each phase h, as
// [phase h][channel][voxel][phase w]. The channels lie apart in banks.
constexpr int kTurnChannel = 16 * kStrideW + (kStrideW == 2 ? 4 : 8);
constexpr int kTurnBytes = kStore == kStoreTurned ? kStrideH * 8 * kTurnChannel * 4 : 0;

/// The sum at a place that is a constant once the loops are unrolled; 0 where there are no taps.
template <int Slot>
__device__ __forceinline__ float sum_at(const Accumulators& acc, int m, int phase, int index) {
    if (Slot < 0 || kAccPhase[phase] < 0) return 0.f;
    return acc.sums[m][(kAccPhase[phase] < 0 ? 0 : kAccPhase[phase]) * (kN / 2) + (Slot < 0 ? 0 : Slot) * kCoTile / 2 +
                       index];
}

template <int Slot>
__device__ __forceinline__ void clear_slot(Accumulators& acc) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int phase = 0; phase < kAccPhases; ++phase)
#pragma unroll
            for (int i = 0; i < kCoTile / 2; ++i) acc.sums[m][phase * (kN / 2) + Slot * kCoTile / 2 + i] = 0.f;
}

/// The slice that is stored, and the channels of the work item.
struct Slice {
    int64_t index;  // of its first output in its first channel
    int64_t stride; // to the next channel
    int channel;    // the first one
    int count;      // of them that exist
};

__device__ __forceinline__ Slice slice_of(const StreamArgs& args, const Item& item, int d, bool keep) {
    const int first = item.co_tile * kCoTile;
    Slice slice;
    slice.channel = item.group * kCo + first;
    // A branch around all stores would make the compiler keep the sums twice.
    slice.count = keep ? min(kCo - first, kCoTile) : 0;
    if constexpr (kChannelsLast) {
        slice.stride = 1;
        slice.index = (static_cast<int64_t>(item.n) * args.dst_d + d) * args.dst_slice * kChannels + slice.channel;
    } else {
        slice.stride = args.dst_d * args.dst_slice;
        slice.index = (static_cast<int64_t>(item.n) * kChannels + slice.channel) * slice.stride + d * args.dst_slice;
    }
    return slice;
}

/// Where the sums leave no room for the places of all stores, makes the compiler believe that the value may be another
/// one from here on. Otherwise it computes the places once, ahead, and keeps them in registers.
__device__ __forceinline__ void forget(int& value) {
    constexpr int kSums = kMTiles * kAccPhases * kN / 2, kPlaces = 8 * kMTiles, kRoom = kRuns > 24 ? 150 : 176;
    if constexpr (kSums + kPlaces > kRoom) asm volatile("" : "+r"(value));
}

/// The outputs of a position: the one at phase (0, 0), counted from the slice's first, and which exist.
struct Place {
    int64_t offset;
    int rows, columns; // phases h and w that exist, from 0 on
};

__device__ __forceinline__ Place place_of(const StreamArgs& args, const Item& item, int position) {
    forget(position);
    const Voxel voxel = voxel_at(position);
    const int h = (item.q_h + voxel.row) * kStrideH, w = (item.q_w + voxel.column) * kStrideW;
    const bool exists = voxel.row < kTileH && voxel.column < kTileW &&
                        (kImages == 1 || (voxel.image < kImages && item.n + voxel.image < args.batch));
    Place place;
    place.rows = exists ? min(args.dst_h - h, kStrideH) : 0;
    place.columns = exists ? min(args.dst_w - w, kStrideW) : 0;
    place.offset = h * args.dst_w + w;
    if constexpr (kChannelsLast) place.offset *= kChannels;
    if constexpr (kImages > 1) place.offset += voxel.image * (kChannels * args.dst_d * args.dst_slice);
    return place;
}

/// Rows of this lane's warp in an m64 tile: the lane's two are `half` = 0 and 1.
__device__ __forceinline__ int lane_row(int half) {
    return threadIdx.x / 32 % 4 * 16 + half * 8 + threadIdx.x % 32 / 4;
}

// ---- Contiguous along w ----

/// Lanes of neighbouring voxels trade sums, so that each has two voxels of one channel: the even voxel's lane the first
/// of the pair of channels, the odd one's the second.
__device__ __forceinline__ void trade_voxels(float (&pair)[2], bool odd) {
    const float received = __shfl_xor_sync(0xffffffffu, odd ? pair[0] : pair[1], 4);
    pair[odd ? 0 : 1] = received;
}

// Stores go through all voxels of a channel before they go to the next one: neighbours in memory are written shortly
// after one another, and the sectors that two runs share are filled before they leave the cache.

/// 8 channels, two voxels at once.
template <int Slot>
__device__ __forceinline__ void store_voxel_pairs(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                                  const Item& item, const Slice& slice, int j) {
    const int odd = threadIdx.x / 4 % 2, c = j * 8 + 2 * (threadIdx.x % 4) + odd;
    const float bias = c < slice.count ? load_bias(output, slice.channel + c) : 0.f;
    const int64_t first = slice.index + c * slice.stride - odd;
#pragma unroll
    for (int i = 0; i < 2 * kMTiles; ++i) {
        const int m = i / 2, half = i % 2;
        const Place place = place_of(args, item, row_position(m, lane_row(half)));
        const int rows = c < slice.count && place.columns > 0 ? place.rows : 0;
#pragma unroll
        for (int h = 0; h < kStrideH; ++h) {
            float pair[2] = {sum_at<Slot>(acc, m, h, j * 4 + half * 2), sum_at<Slot>(acc, m, h, j * 4 + half * 2 + 1)};
            trade_voxels(pair, odd);
            if (h < rows)
                store_outputs<2>(output, pair, bias, slice.channel + c, first + place.offset + h * args.dst_w, 2, true);
        }
    }
}

/// 8 channels, the phases of a voxel along w at once.
template <int Slot>
__device__ __forceinline__ void store_voxels(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, const Slice& slice, int j) {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
        const int c = j * 8 + 2 * (threadIdx.x % 4) + pair;
        const float bias = c < slice.count ? load_bias(output, slice.channel + c) : 0.f;
        const int64_t first = slice.index + c * slice.stride;
#pragma unroll
        for (int i = 0; i < 2 * kMTiles; ++i) {
            const int m = i / 2, half = i % 2;
            const Place place = place_of(args, item, row_position(m, lane_row(half)));
            const int rows = c < slice.count && place.columns > 0 ? place.rows : 0;
#pragma unroll
            for (int h = 0; h < kStrideH; ++h) {
                float sums[kStrideW];
#pragma unroll
                for (int w = 0; w < kStrideW; ++w)
                    sums[w] = sum_at<Slot>(acc, m, h * kStrideW + w, j * 4 + half * 2 + pair);
                if (h < rows)
                    store_outputs<kStrideW>(output, sums, bias, slice.channel + c,
                                            first + place.offset + h * args.dst_w, kStrideW, true);
            }
        }
    }
}

// ---- Contiguous along channels ----

template <int Slot>
__device__ __forceinline__ void store_channels(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                               const Slice& slice, const Place& place, int m, int half) {
    constexpr bool kAligned = kChannels % kLaneChannels == 0 && kCo % kLaneChannels == 0;
#pragma unroll
    for (int block = 0; block < kCoTile / (4 * kLaneChannels); ++block) {
        const int c = block * 4 * kLaneChannels + threadIdx.x % 4 * kLaneChannels;
        const int count = min(slice.count - c, kLaneChannels);
        if (count <= 0) continue;
        float bias[kLaneChannels];
#pragma unroll
        for (int i = 0; i < kLaneChannels; ++i) bias[i] = i < count ? load_bias(output, slice.channel + c + i) : 0.f;
#pragma unroll
        for (int phase = 0; phase < kHwPhases; ++phase) {
            const int h = phase / kStrideW, w = phase % kStrideW;
            float sums[kLaneChannels];
#pragma unroll
            for (int i = 0; i < kLaneChannels; ++i)
                sums[i] = sum_at<Slot>(acc, m, phase, block * 2 * kLaneChannels + i / 2 * 4 + half * 2 + i % 2) + bias[i];
            const int64_t index = slice.index + place.offset + c + (h * args.dst_w + w) * static_cast<int64_t>(kChannels);
            if (h < place.rows && w < place.columns)
                store_values<1>(output, sums, slice.channel + c, index, count, kAligned);
        }
    }
}

// ---- Through shared memory ----

/// Puts a warp's sums of one m64 tile and 8 channels into its buffer.
template <int Slot>
__device__ __forceinline__ void turn_sums(const Accumulators& acc, uint32_t buffer, int j, int m) {
    const uint32_t lane = buffer + (2 * (threadIdx.x % 4) * kTurnChannel + threadIdx.x % 32 / 4 * kStrideW) * 4;
#pragma unroll
    for (int index = 0; index < 4; ++index) {
        const int half = index / 2, pair = index % 2;
#pragma unroll
        for (int phase = 0; phase < kHwPhases; ++phase) {
            const int word = (phase / kStrideW * 8 + pair) * kTurnChannel + half * 8 * kStrideW + phase % kStrideW;
            ptx::store_shared(lane + word * 4, sum_at<Slot>(acc, m, phase, j * 4 + index));
        }
    }
}

/// Stores 8 channels of a warp's part of an m64 tile so that lanes write neighbours.
template <int Slot>
__device__ __forceinline__ void store_turned(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, const Slice& slice, uint32_t buffer, int j, int m) {
    constexpr int kOutputs = (16 * kStrideW + 31) / 32; // of a lane in a row
    if constexpr (Slot >= 0) {
        __syncwarp();
        turn_sums<Slot>(acc, buffer, j, m);
        __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
        const int w = i * 32 + threadIdx.x % 32;
        const Place place = place_of(args, item, row_position(m, threadIdx.x / 32 % 4 * 16 + w / kStrideW % 16));
        const int rows = w < 16 * kStrideW && w % kStrideW < place.columns ? place.rows : 0;
        int64_t index = slice.index + j * 8 * slice.stride + place.offset + w % kStrideW;
#pragma unroll
        for (int c = 0; c < 8; ++c, index += slice.stride) {
            const int channel = slice.channel + j * 8 + c;
            const bool stored = j * 8 + c < slice.count;
            const float bias = stored ? load_bias(output, channel) : 0.f;
#pragma unroll
            for (int h = 0; h < kStrideH; ++h) {
                const uint32_t at = buffer + ((h * 8 + c) * kTurnChannel + w) * 4;
                const float sum = Slot < 0 ? 0.f : __uint_as_float(ptx::load_shared(at));
                if (stored && h < rows) store_output(output, sum, bias, channel, index + h * args.dst_w);
            }
        }
    }
}

// ---- Slices ----

/// Stores one D phase's finished output slice. Slot -1: a phase without taps, all zero.
template <int Slot>
__device__ __forceinline__ void store_slice(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                            const Item& item, int d, bool keep, uint32_t buffer) {
    const Slice slice = slice_of(args, item, d, keep);
    if constexpr (kStore == kStoreChannels) {
#pragma unroll
        for (int i = 0; i < 2 * kMTiles; ++i) {
            const Place place = place_of(args, item, row_position(i / 2, lane_row(i % 2)));
            store_channels<Slot>(acc, args, output, slice, place, i / 2, i % 2);
        }
    } else {
#pragma unroll
        for (int j = 0; j < kCoTile / 8; ++j) {
            if constexpr (kStore == kStoreVoxel) {
                store_voxels<Slot>(acc, args, output, item, slice, j);
            } else if constexpr (kStore == kStoreVoxelPairs) {
                store_voxel_pairs<Slot>(acc, args, output, item, slice, j);
            } else {
#pragma unroll
                for (int m = 0; m < kMTiles; ++m) store_turned<Slot>(acc, args, output, item, slice, buffer, j, m);
            }
        }
    }
}

/// After slice `slice` (= Rotation mod kRotations) D phase R has finished q = slice - kRingDelta[R].
template <int Rotation, int R>
__device__ __forceinline__ void finish_phases(Accumulators& acc, const StreamArgs& args, const Output& output,
                                              const Item& item, int slice, uint32_t buffer) {
    if constexpr (R < kDPhases) {
        const int q = slice - kRingDelta[R], d = kStrideD * q + R;
        const bool keep = q >= item.q_d && q < item.q_d_end && d < args.dst_d;
        if constexpr (kRingLength[R] == 0) {
            store_slice<-1>(acc, args, output, item, d, keep, buffer);
        } else {
            constexpr int kRound = (kRingDelta[R] < 0 ? -kRingDelta[R] : kRingDelta[R]) * kRingLength[R];
            constexpr int kSlot = kRingStart[R] + (Rotation - kRingDelta[R] + kRound) % kRingLength[R];
            store_slice<kSlot>(acc, args, output, item, d, keep, buffer);
            clear_slot<kSlot>(acc);
        }
        finish_phases<Rotation, R + 1>(acc, args, output, item, slice, buffer);
    }
}

template <int Rotation>
__device__ __forceinline__ void finish_slice(Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, int slice, int rotation, uint32_t buffer) {
    if constexpr (Rotation < kRotations) {
        if (rotation == Rotation) {
            finish_phases<Rotation, 0>(acc, args, output, item, slice, buffer);
        } else {
            finish_slice<Rotation + 1>(acc, args, output, item, slice, rotation, buffer);
        }
    }
}

} // namespace
