#pragma once

// How the streamed form stores the slots that a slice has finished: finishes their accumulators, and brings the results
// into the output in the way that kStore says.
#include "schedule/pipeline.cuh"
#include "store/streamed_bulk_rows.cuh"
#include "store/vectors.cuh"

namespace {

// ---- Contiguous along w ----
//
// Stores go through all voxels of a channel before they go to the next one: neighbours in memory are written shortly
// after one another, and the sectors that two rows share are filled before they leave the cache.

/// Store::voxels: stores a lane's outputs of one channel, the phases of a voxel along W side by side.
template <int Slot>
__device__ __forceinline__ void store_voxels(const Accumulators& acc, const TensorCoreArguments& args,
                                             const Output& output, const LaneOffsets& offsets, const StoredSlice& slice,
                                             int column) {
    const int c = lane_channel(column);
    const float bias = lane_bias(output, slice, column);
    const Index first = slice.index + c * slice.stride;
#pragma unroll
    for (int i = 0; i < kLanePositions; ++i) {
#pragma unroll
        for (int h = 0; h < kRowPhases; ++h) {
            Fragment<kStrideW, 0, Index> row{
                {}, {bias}, slice.channel + c, first + (h * args.out_extents.w + offsets.offset[i])};
#pragma unroll
            for (int w = 0; w < kStrideW; ++w) row.values[w] = accumulator_at<Slot>(acc, i, h * kStrideW + w, column);
            store_fragment(output, row, offsets.columns(i), kAligned, slice.has(c) && offsets.exists(i, h));
        }
    }
}

/// Stores results of 16 bits that a lane has for two neighbouring channels of each of the two positions of an m64 tile.
/// movmatrix transposes 8 voxels x 8 channels, so that each lane has two voxels of one channel for either position.
/// With Store::quads two lanes then exchange theirs, so that each has four voxels of one position.
template <typename Half>
__device__ __forceinline__ void put_transposed(Half* tensor, const float (&values)[2][2], Index first,
                                               const LaneOffsets& offsets, int m, int h, bool has) {
    uint32_t pairs[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
        pairs[half] = ptx::transpose_matrix(to_word(values[half][0], values[half][1], Half{}));
    if constexpr (kStore == Store::quads) {
        const bool odd = threadIdx.x % 2;
        const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? pairs[0] : pairs[1], 1);
        const Pack<uint32_t, 2> quad = {{odd ? received : pairs[0], odd ? pairs[1] : received}};
        if (has && offsets.exists(2 * m, h))
            *reinterpret_cast<Pack<uint32_t, 2>*>(tensor + (first + offsets.offset[2 * m])) = quad;
    } else {
#pragma unroll
        for (int i = 2 * m; i < 2 * m + 2; ++i)
            if (has && offsets.exists(i, h))
                *reinterpret_cast<uint32_t*>(tensor + (first + offsets.offset[i])) = pairs[i % 2];
    }
}

/// Store::pairs and Store::quads: stores the 8 channels `j` of 16 bits.
template <int Slot>
__device__ __forceinline__ void store_transposed(const Accumulators& acc, const TensorCoreArguments& args,
                                                 const Output& output, const LaneOutputs& outputs,
                                                 const StoredSlice& slice, int j) {
    const int stored = j * 8 + threadIdx.x % 32 / 4, c = lane_channel(2 * j);
    const float bias[2] = {lane_bias(output, slice, 2 * j), lane_bias(output, slice, 2 * j + 1)};
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
        for (int h = 0; h < kRowPhases; ++h) {
            const Index first = slice.index + stored * slice.stride + h * args.out_extents.w;
            for_each_result(output, [&](auto result, Storage* tensor) {
                float values[2][2]; // of a position, of a channel
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int i = 2 * m + half;
                    Fragment<2, 1, Index> own{
                        {accumulator_at<Slot>(acc, i, h, 2 * j), accumulator_at<Slot>(acc, i, h, 2 * j + 1)},
                        {bias[0], bias[1]},
                        slice.channel + c,
                        slice.index + c * slice.stride + h * args.out_extents.w + outputs.own.offset[i],
                        slice.stride};
                    finish<result.value>(own, output,
                                         [&](int k) { return slice.has(c + k) && outputs.own.exists(i, h); });
                    values[half][0] = own.values[0];
                    values[half][1] = own.values[1];
                }
                put_transposed(tensor, values, first, outputs.stored, m, h, slice.has(stored));
            });
        }
    }
}

// ---- Contiguous along channels ----

/// Store::channels: stores a lane's channels of one position's phases in row h.
template <int Slot>
__device__ __forceinline__ void store_channels(const Accumulators& acc, const TensorCoreArguments& args,
                                               const Output& output, const LaneOffsets& offsets,
                                               const StoredSlice& slice, const float (&bias)[kLaneColumns],
                                               int position, int h) {
    constexpr bool kAllChannels = kAllOutChannels % kLaneChannels == 0 && kOutChannels % kLaneChannels == 0;
#pragma unroll
    for (int w = 0; w < kStrideW; ++w) {
        const Index first = slice.index + (static_cast<Index>(h) * args.out_extents.w + w) * kAllOutChannels;
        const bool exists = offsets.exists(position, h) && w < offsets.columns(position);
#pragma unroll
        for (int column = 0; column < kLaneColumns; column += kLaneChannels) {
            const int c = lane_channel(column);
            Fragment<kLaneChannels, 1, Index> channels{{}, {}, slice.channel + c, first + offsets.offset[position] + c};
#pragma unroll
            for (int i = 0; i < kLaneChannels; ++i) {
                channels.values[i] = accumulator_at<Slot>(acc, position, h * kStrideW + w, column + i);
                channels.bias[i] = bias[column + i];
            }
            store_fragment(output, channels, kAllChannels ? kLaneChannels : min(slice.count - c, kLaneChannels),
                           kAllChannels, exists && slice.has(c));
        }
    }
}

// ---- Slices ----

/// Whether some outputs have no taps: all they have is a bias.
constexpr bool has_phases_without_taps() {
    for (const int accumulator : kPhaseAccumulator)
        if (accumulator < 0) return true;
    for (const int length : kRingLength)
        if (length == 0) return true;
    return false;
}
constexpr bool kHasPhasesWithoutTaps = has_phases_without_taps();

/// Stores the finished output slice of one D phase. Slot -1 is a phase without taps, whose accumulators are zero.
template <int Slot>
__device__ __forceinline__ void store_slice(const Accumulators& acc, const TensorCoreArguments& args,
                                            const Output& output, const Item& item, const Pipeline& pipe,
                                            LaneOutputs& outputs, int d, bool keep) {
    outputs.make_opaque();
    const StoredSlice slice = stored_slice(args, item, d, keep);
    if constexpr (kStore == Store::channels) {
        float bias[kLaneColumns];
#pragma unroll
        for (int column = 0; column < kLaneColumns; ++column) bias[column] = lane_bias(output, slice, column);
#pragma unroll
        for (int i = 0; i < kLanePositions; ++i)
#pragma unroll
            for (int h = 0; h < kRowPhases; ++h)
                store_channels<Slot>(acc, args, output, outputs.own, slice, bias, i, h);
    } else if constexpr (kStore == Store::bulk_rows && !kSavesPreactivation && Slot < 0 && kOperands == 0) {
        fill_slice(args, output, item, slice);
    } else if constexpr (kStore == Store::bulk_rows && !kSavesPreactivation) {
#pragma unroll
        for (int column = 0; column < kLaneColumns; column += kStoreColumns)
            store_columns<Slot>(acc, args, output, item, pipe, outputs, slice, column);
    } else if constexpr (LaneOutputs::kExchanges) {
#pragma unroll
        for (int j = 0; j < kTileChannels / 8; ++j) store_transposed<Slot>(acc, args, output, outputs, slice, j);
    } else {
#pragma unroll
        for (int column = 0; column < kLaneColumns; ++column) {
            outputs.make_opaque();
            store_voxels<Slot>(acc, args, output, outputs.own, slice, column);
        }
    }
    // The compiler may turn stores of outputs without taps into branches that lanes leave at different times, and clear
    // accumulators inside. The assembler would then serialise all products.
    if constexpr (kHasPhasesWithoutTaps) __syncwarp();
}

/// The first D phase without taps; kDPhases where each has some.
constexpr int first_empty_phase() {
    int phase = 0;
    while (phase < kDPhases && kRingLength[phase] != 0) ++phase;
    return phase;
}

/// After input slice `slice`, D phase R has finished q = slice - kRingShift[R]. Its slot depends on `rotation`, the
/// slice modulo the length of the ring.
template <int R, int Rotation>
__device__ __forceinline__ void finish_slot(Accumulators& acc, const TensorCoreArguments& args, const Output& output,
                                            const Item& item, const Pipeline& pipe, LaneOutputs& outputs, int slice,
                                            int rotation) {
    constexpr int kLength = kRingLength[R] == 0 ? 1 : kRingLength[R];
    if constexpr (Rotation < kLength) {
        if (rotation != Rotation)
            return finish_slot<R, Rotation + 1>(acc, args, output, item, pipe, outputs, slice, rotation);
        const int q = slice - kRingShift[R], d = kStrideD * kSlices * q + R;
        const bool keep = q >= item.q_d && q < item.q_d_end && d < args.out_extents.d;
        if constexpr (kRingLength[R] == 0) {
            store_slice<-1>(acc, args, output, item, pipe, outputs, d, keep);
        } else {
            constexpr int kRound = (kRingShift[R] < 0 ? -kRingShift[R] : kRingShift[R]) * kLength;
            constexpr int kSlot = kRingStart[R] + (Rotation - kRingShift[R] + kRound) % kLength;
            store_slice<kSlot>(acc, args, output, item, pipe, outputs, d, keep);
            clear_slot<kSlot>(acc);
        }
    }
}

/// Stores what input slice `slice` finishes, in the D phases from R on. Where the epilogue is called because its code
/// would be long, the phases without taps are one loop instead of one copy each.
template <int R>
__device__ __forceinline__ void finish_slice(Accumulators& acc, const TensorCoreArguments& args, const Output& output,
                                             const Item& item, const Pipeline& pipe, LaneOutputs& outputs, int slice) {
    if constexpr (R < kDPhases) {
        constexpr int kLength = kRingLength[R] == 0 ? 1 : kRingLength[R];
        if constexpr (kRingLength[R] != 0 || !kCallsEpilogue) {
            finish_slot<R, 0>(acc, args, output, item, pipe, outputs, slice, (slice + kRotationRound) % kLength);
        } else if constexpr (R == first_empty_phase()) {
#pragma unroll 1
            for (int phase = R; phase < kDPhases; ++phase) {
                if (kRingLength[phase] != 0) continue;
                const int q = slice - kRingShift[phase], d = kStrideD * kSlices * q + phase;
                const bool keep = q >= item.q_d && q < item.q_d_end && d < args.out_extents.d;
                store_slice<-1>(acc, args, output, item, pipe, outputs, d, keep);
            }
        }
        finish_slice<R + 1>(acc, args, output, item, pipe, outputs, slice);
    }
}

} // namespace
