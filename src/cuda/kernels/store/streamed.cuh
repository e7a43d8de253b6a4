#pragma once

// Finished sums become outputs: bias, epilogue, rounding, and the way from registers to the tensor.
//
// kStore says which way: kStoreVoxel writes the phases of a voxel along w, at once where kAligned says that they are
// one aligned access; kStorePairs and kStoreQuads two and four voxels of 16 bits; kStoreStaged whole rows through
// shared memory; kStoreChannels kLaneChannels neighbouring channels.
#include "store/streamed_rows.cuh"

namespace {

// ---- Contiguous along w ----
//
// Stores go through all voxels of a channel before they go to the next one: neighbours in memory are written shortly
// after one another, and the sectors that two runs share are filled before they leave the cache.

/// One channel, the phases of a voxel along w side by side.
template <int Slot>
__device__ __forceinline__ void store_voxels(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Places& places, const Slice& slice, int column) {
    const int c = lane_channel(column);
    const float bias = lane_bias(output, slice, column);
    const Index first = slice.index + c * slice.stride;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
#pragma unroll
        for (int h = 0; h < kRowPhases; ++h) {
            float sums[kStrideW];
#pragma unroll
            for (int w = 0; w < kStrideW; ++w) sums[w] = sum_at<Slot>(acc, i, h * kStrideW + w, column);
            store_outputs<kStrideW>(output, sums, bias, slice.channel + c, first + (h * args.dst_w + places.offset[i]),
                                    places.columns(i), kAligned, slice.has(c) && places.exists(i, h));
        }
    }
}

/// Two neighbouring channels of 16 bits of the positions of an m64 tile. Lanes turn 8 of them around, so that each has
/// two voxels of one channel, and trade those of its two positions for four voxels where rows allow.
template <typename Half>
__device__ __forceinline__ void put_turned(Half* tensor, const float (&values)[2][2], Index first, const Places& places,
                                           int m, int h, bool has) {
    uint32_t pairs[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
        pairs[half] = ptx::transpose_matrix(to_word(values[half][0], values[half][1], Half{}));
    if constexpr (kStore == kStoreQuads) {
        const bool odd = threadIdx.x % 2;
        const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? pairs[0] : pairs[1], 1);
        const Pack<uint32_t, 2> quad = {{odd ? received : pairs[0], odd ? pairs[1] : received}};
        if (has && places.exists(2 * m, h))
            *reinterpret_cast<Pack<uint32_t, 2>*>(tensor + (first + places.offset[2 * m])) = quad;
    } else {
#pragma unroll
        for (int i = 2 * m; i < 2 * m + 2; ++i)
            if (has && places.exists(i, h))
                *reinterpret_cast<uint32_t*>(tensor + (first + places.offset[i])) = pairs[i % 2];
    }
}

/// 8 channels of 16 bits.
template <int Slot>
__device__ __forceinline__ void store_turned(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Storing& storing, const Slice& slice, int j) {
    const int stored = j * 8 + threadIdx.x % 32 / 4, c = lane_channel(2 * j);
    const float bias[2] = {lane_bias(output, slice, 2 * j), lane_bias(output, slice, 2 * j + 1)};
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
        for (int h = 0; h < kRowPhases; ++h) {
            const Index first = slice.index + stored * slice.stride + h * args.dst_w;
            float values[2][2]; // of a position, of a channel
#pragma unroll
            for (int k = 0; k < 4; ++k)
                values[k / 2][k % 2] = sum_at<Slot>(acc, 2 * m + k / 2, h, 2 * j + k % 2) + bias[k % 2];
            if constexpr (kSavesPreactivation)
                put_turned(output.preactivation, values, first, storing.stored, m, h, slice.has(stored));
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int i = 2 * m + k / 2, own = c + k % 2;
                values[k / 2][k % 2] = lane_value(
                    values[k / 2][k % 2], output, slice.has(own) && storing.own.exists(i, h), slice.channel + own,
                    slice.index + own * slice.stride + h * args.dst_w + storing.own.offset[i]);
            }
            put_turned(output.dst, values, first, storing.stored, m, h, slice.has(stored));
        }
    }
}

// ---- Contiguous along channels ----

/// All channels of one voxel's phases in row h.
template <int Slot>
__device__ __forceinline__ void store_channels(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                               const Places& places, const Slice& slice,
                                               const float (&bias)[kLaneColumns], int place, int h) {
    constexpr bool kWhole = kChannels % kLaneChannels == 0 && kCo % kLaneChannels == 0;
#pragma unroll
    for (int w = 0; w < kStrideW; ++w) {
        const Index first = slice.index + (static_cast<Index>(h) * args.dst_w + w) * kChannels;
        const bool exists = places.exists(place, h) && w < places.columns(place);
#pragma unroll
        for (int column = 0; column < kLaneColumns; column += kLaneChannels) {
            const int c = lane_channel(column);
            float values[kLaneChannels];
#pragma unroll
            for (int i = 0; i < kLaneChannels; ++i)
                values[i] = sum_at<Slot>(acc, place, h * kStrideW + w, column + i) + bias[column + i];
            store_values<1>(output, values, slice.channel + c, first + places.offset[place] + c,
                            kWhole ? kLaneChannels : min(slice.count - c, kLaneChannels), kWhole,
                            exists && slice.has(c));
        }
    }
}

// ---- Slices ----

/// Stores one D phase's finished output slice. Slot -1: a phase without taps, all zero.
template <int Slot>
__device__ __forceinline__ void store_slice(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                            const Item& item, const Pipeline& pipe, Storing& storing, int d,
                                            bool keep) {
    storing.forget();
    const Slice slice = slice_of(args, item, d, keep);
    if constexpr (kStore == kStoreChannels) {
        float bias[kLaneColumns];
#pragma unroll
        for (int column = 0; column < kLaneColumns; ++column) bias[column] = lane_bias(output, slice, column);
#pragma unroll
        for (int i = 0; i < kPlaces; ++i)
#pragma unroll
            for (int h = 0; h < kRowPhases; ++h)
                store_channels<Slot>(acc, args, output, storing.own, slice, bias, i, h);
    } else if constexpr (kStore == kStoreStaged && !kSavesPreactivation && Slot < 0 && kOperands == 0) {
        fill_slice(args, output, item, slice);
    } else if constexpr (kStore == kStoreStaged && !kSavesPreactivation) {
#pragma unroll
        for (int column = 0; column < kLaneColumns; column += kStagedColumns)
            store_staged<Slot>(acc, args, output, item, pipe, storing, slice, column);
    } else if constexpr (Storing::kTrades) {
#pragma unroll
        for (int j = 0; j < kCoTile / 8; ++j) store_turned<Slot>(acc, args, output, storing, slice, j);
    } else {
#pragma unroll
        for (int column = 0; column < kLaneColumns; ++column) {
            storing.forget();
            store_voxels<Slot>(acc, args, output, storing.own, slice, column);
        }
    }
}

/// After slice `slice` D phase R has finished q = slice - kRingDelta[R], whose slot depends on `turn`, the slice modulo
/// the length of the ring.
template <int R, int Turn>
__device__ __forceinline__ void finish_turn(Accumulators& acc, const StreamArgs& args, const Output& output,
                                            const Item& item, const Pipeline& pipe, Storing& storing, int slice,
                                            int turn) {
    constexpr int kLength = kRingLength[R] == 0 ? 1 : kRingLength[R];
    if constexpr (Turn < kLength) {
        if (turn != Turn) return finish_turn<R, Turn + 1>(acc, args, output, item, pipe, storing, slice, turn);
        const int q = slice - kRingDelta[R], d = kStrideD * kSlices * q + R;
        const bool keep = q >= item.q_d && q < item.q_d_end && d < args.dst_d;
        if constexpr (kRingLength[R] == 0) {
            store_slice<-1>(acc, args, output, item, pipe, storing, d, keep);
        } else {
            constexpr int kRound = (kRingDelta[R] < 0 ? -kRingDelta[R] : kRingDelta[R]) * kLength;
            constexpr int kSlot = kRingStart[R] + (Turn - kRingDelta[R] + kRound) % kLength;
            store_slice<kSlot>(acc, args, output, item, pipe, storing, d, keep);
            clear_slot<kSlot>(acc);
        }
    }
}

/// The D phases from R on.
template <int R>
__device__ __forceinline__ void finish_slice(Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, const Pipeline& pipe, Storing& storing, int slice) {
    if constexpr (R < kDPhases) {
        constexpr int kLength = kRingLength[R] == 0 ? 1 : kRingLength[R];
        finish_turn<R, 0>(acc, args, output, item, pipe, storing, slice, (slice + kRotationRound) % kLength);
        finish_slice<R + 1>(acc, args, output, item, pipe, storing, slice);
    }
}

} // namespace
