#pragma once

// fwd and bwd_data by cells, on the ordinary units. A thread owns a cell: a block of kCellD x kCellH x kCellW outputs,
// which are multiples of the output strides. So each of its outputs has a phase that is known at compile time, and each
// input voxel that they share is read once. In fwd the input stride is 1, in bwd_data the output stride is. Along W, in
// fwd with stride 2, kernel 3 and no padding:
//
//     the cell                        o0          o1           o2          o3
//     taps                            0, 2        1            0, 2        1
//     its window of the input       i0, i−1       i0         i1, i0        i1
//
// Output (cell · m + b) meets tap j at input (cell / stride · input stride) · m + shift. The host lists the shifts
// along each dimension and what each serves: pairs (output of the cell, tap), along D, and along H and W together for
// the slice of one shift.
//
// Neighbouring threads take neighbouring outputs. In channels-last kLanes threads share a cell, one channel or one pack
// of channels each; otherwise kLanes is 1. A thread has kThreadChannels channels, kLanes apart, or the kPack neighbours
// of a pack. A tile of kLanes * kThreadChannels channels belongs to one group, or each channel belongs to its own
// (kThreadChannels is kPack then).
#include "load/cell_window.cuh"
#include "shared/cells.cuh"
#include "store/vectors.cuh"

namespace {

using tconv3d::cuda::CellArguments;

constexpr int kVolume = kCellD * kCellH * kCellW;
constexpr int kTile = kLanes * kThreadChannels;
constexpr int kChannelStep = kPack > 1 ? 1 : kLanes; // from a thread's channel to the next
constexpr int kTiles = (kSpace + kTile - 1) / kTile; // of the channels that tiles divide: a group's or all
constexpr int kAllTiles = kGroups * kOutChannels / kSpace * kTiles;
constexpr int kChunks = (kInChannels + kChunk - 1) / kChunk;
constexpr int kAllInChannels = kGroups * kInChannels;
constexpr int kAllOutChannels = kGroups * kOutChannels;
constexpr int kVoxelStride = kChannelsLast ? kAllInChannels : 1;
// Few weights are read once for all outputs that use them; more would not stay in registers.
constexpr bool kHoldsWeights = kPlaneTaps * kThreadChannels * sizeof(Compute) <= 128;
// From a staged tap to the next one. Neighbouring threads stage neighbouring taps: where a tap has as many weights as
// there are banks, not all in the same one.
constexpr int kTapPitch = kTile + (kLanes > 1 ? kPack : 0);
// Staged weights of one tap along D; whole vectors, that neighbouring ones may come in one access.
constexpr int kPlane = (kPlaneTaps * kTapPitch + 3) / 4 * 4;
constexpr int kTaps = kKernelD * kPlaneTaps;

using Sums = Compute[kVolume][kThreadChannels];

/// The channels of a tile, counted over all groups.
struct Channels {
    int first, end;

    __device__ __forceinline__ explicit Channels(int tile) {
        const int space = tile / kTiles * kSpace;
        first = space + tile % kTiles * kTile;
        end = first + kTile < space + kSpace ? first + kTile : space + kSpace;
    }
};

/// Multiplies the voxels of a slice from V on, each for the outputs and taps that it serves. The channels of a thread
/// share a voxel, unless each has its own in a pack.
template <int V, typename Weight>
__device__ __forceinline__ void multiply_slice(Compute (*sums)[kThreadChannels], const Voxel (&voxels)[kSlice],
                                               const Weight& weight) {
    if constexpr (V < kSlice) {
        Compute values[kPack];
        to_compute(voxels[V], values);
#pragma unroll
        for (int use = kUseBegin[V]; use < kUseBegin[V + 1]; ++use) {
#pragma unroll
            for (int i = 0; i < kThreadChannels; ++i)
                sums[kUseOutput[use]][i] += values[i % kPack] * weight(kUseTap[use], i);
        }
        multiply_slice<V + 1>(sums, voxels, weight);
    }
}

/// `weights` of one input channel and one tap along D: [tap][tile], from this thread's first channel on.
__device__ __forceinline__ void multiply_plane(Compute (*sums)[kThreadChannels], const Voxel (&voxels)[kSlice],
                                               const Compute* weights) {
    const auto weight = [&](int tap, int i) { return weights[tap * kTapPitch + i * kChannelStep]; };
    if constexpr (kHoldsWeights) {
        Compute held[kPlaneTaps][kThreadChannels];
#pragma unroll
        for (int tap = 0; tap < kPlaneTaps; ++tap) {
#pragma unroll
            for (int i = 0; i < kThreadChannels; ++i) held[tap][i] = weight(tap, i);
        }
        multiply_slice<0>(sums, voxels, [&](int tap, int i) { return held[tap][i]; });
    } else {
        multiply_slice<0>(sums, voxels, weight);
    }
}

/// Multiplies the slices of the window from A on, each for the outputs and taps along D that it serves.
template <int A>
__device__ __forceinline__ void multiply_slices(Sums& sums, const CellArguments& args, const Window& window,
                                                const Storage* channel, const Compute* weights) {
    if constexpr (A < kShiftsD) {
        Voxel voxels[kSlice];
        load_slice<kVoxelStride>(voxels, args.in_extents, window, window.d + kShiftD[A], channel);
#pragma unroll
        for (int use = kUseBeginD[A]; use < kUseBeginD[A + 1]; ++use) {
            multiply_plane(sums + kUseOutputD[use] * (kCellH * kCellW), voxels, weights + kUseTapD[use] * kPlane);
        }
        multiply_slices<A + 1>(sums, args, window, channel, weights);
    }
}

/// Multiplies all slices of the window of a cell of one output along D, where a slice serves one tap. It is a loop, so
/// that long kernels stay short code.
__device__ __forceinline__ void walk_slices(Sums& sums, const CellArguments& args, const Window& window,
                                            const Storage* channel, const Compute* weights) {
#pragma unroll 1
    for (int a = 0; a < kShiftsD; ++a) {
        Voxel voxels[kSlice];
        load_slice<kVoxelStride>(voxels, args.in_extents, window, window.d + kShiftD[a], channel);
        multiply_plane(sums, voxels, weights + kUseTapD[a] * kPlane);
    }
}

/// Where a tap's weights are staged, of one input channel.
__device__ __forceinline__ int staged_tap(int tap) {
    if constexpr (kPlane == kPlaneTaps * kTapPitch) return tap * kTapPitch;
    return tap / kPlaneTaps * kPlane + tap % kPlaneTaps * kTapPitch;
}

/// Brings the weights of a tile of packs, which lie one after the other in memory, as [tap along D][tap][tile].
__device__ __forceinline__ void stage_packs(Compute* staged, const Storage* weight, const Channels& channels) {
    const Storage* const own = weight + int64_t{1} * channels.first * kTaps;
    const int end = (channels.end - channels.first) * kTaps;
    for (int index = threadIdx.x; index < end; index += kThreads)
        staged[staged_tap(index % kTaps) + index / kTaps] = load_readonly(own + index);
}

/// Brings the tile's weights of input channels first, first + 1, … as [channel][tap along D][tap][tile].
__device__ __forceinline__ void stage_channels(Compute* staged, const Storage* weight, const Channels& channels,
                                               int first) {
    for (int index = threadIdx.x; index < kChunk * kTile * kTaps; index += kThreads) {
        const int tap = index % kTaps, place = index / kTaps % kTile, chunk = index / (kTaps * kTile);
        const int channel = channels.first + place, ci = first + chunk;
        const bool exists = channel < channels.end && ci < kInChannels;
        const int64_t group = channel / kOutChannels;
        const int co = channel % kOutChannels;
        const int64_t row =
            kFwd ? (group * kInChannels + ci) * kOutChannels + co : (group * kOutChannels + co) * kInChannels + ci;
        staged[chunk * kKernelD * kPlane + staged_tap(tap) + place] =
            exists ? load_readonly(weight + row * kTaps + tap) : Compute(0);
    }
}

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int output = 0; output < kVolume; ++output) {
#pragma unroll
        for (int i = 0; i < kThreadChannels; ++i) sums[output][i] = 0;
    }
}

__device__ __forceinline__ void add(Sums& totals, const Sums& sums) {
#pragma unroll
    for (int output = 0; output < kVolume; ++output) {
#pragma unroll
        for (int i = 0; i < kThreadChannels; ++i) totals[output][i] += sums[output][i];
    }
}

/// Computes the sums of one item. `channel` points to the first input channel of the thread's group. Where all weights
/// are staged at once, those of the item before stay if its tile was the same.
__device__ __forceinline__ void sum_cell(Sums& totals, const CellArguments& args, const Channels& channels,
                                         bool is_same_tile, const Window& window, const Storage* channel,
                                         int64_t channel_stride) {
    __shared__ __align__(16) Compute staged[kChunk * kKernelD * kPlane];
    Sums sums;
    clear(totals);
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks; ++chunk) {
        if (kChunks > 1 || !is_same_tile) {
            __syncthreads();
            const Storage* const weight = static_cast<const Storage*>(args.weight);
            if constexpr (kPack > 1) {
                stage_packs(staged, weight, channels);
            } else {
                stage_channels(staged, weight, channels, chunk * kChunk);
            }
            __syncthreads();
        }
        if constexpr (kSplitsChains) clear(sums);
        const int count = kInChannels - chunk * kChunk < kChunk ? kInChannels - chunk * kChunk : kChunk;
#pragma unroll 1
        for (int ci = 0; ci < count; ++ci) {
            const Compute* const weights = staged + ci * kKernelD * kPlane + threadIdx.x % kLanes * kPack;
            Sums& chain = kSplitsChains ? sums : totals;
            if constexpr (kCellD == 1) {
                walk_slices(chain, args, window, channel, weights);
            } else {
                multiply_slices<0>(chain, args, window, channel, weights);
            }
            channel += channel_stride;
        }
        if constexpr (kSplitsChains) add(totals, sums);
    }
}

/// Stores the i-th channel of a cell whose first output is (d, h, w), or from it on all channels of a pack.
__device__ __forceinline__ void store_cell(const CellArguments& args, const Output& output, const Sums& sums, int i,
                                           int64_t n, int channel, Offset d, Offset h, Offset w) {
    constexpr int kVoxels = kChannelsLast ? 1 : kCellW;       // side by side in memory,
    constexpr int kTogether = kChannelsLast ? kPack : kCellW; // with their channels
    constexpr int kStep = kPack > 1 ? 1 : 0;                  // channels from one of these to the next
    Compute bias[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) bias[k] = load_bias(output, channel + k);
#pragma unroll
    for (int row = 0; row < kCellD * kCellH; ++row) {
        const Offset at_d = d + row / kCellH, at_h = h + row % kCellH;
        if (at_d >= static_cast<Offset>(args.out_extents.d) || at_h >= static_cast<Offset>(args.out_extents.h))
            continue;
        const int64_t plane = kChannelsLast ? n : n * kAllOutChannels + channel;
        const int64_t voxel =
            ((plane * args.out_extents.d + at_d) * args.out_extents.h + at_h) * args.out_extents.w + w;
        const int64_t index = kChannelsLast ? voxel * kAllOutChannels + channel : voxel;
#pragma unroll
        for (int column = 0; column < kCellW; column += kVoxels) {
            const Offset rest = static_cast<Offset>(args.out_extents.w) - (w + column);
            Fragment<kTogether, kStep, int64_t> outputs{
                {}, {}, channel, index + column * (kChannelsLast ? kAllOutChannels : 1)};
#pragma unroll
            for (int k = 0; k < kPack; ++k) outputs.bias[k] = bias[k];
#pragma unroll
            for (int k = 0; k < kTogether; ++k)
                outputs.values[k] = sums[row * kCellW + column + k / kPack][i + k % kPack];
            const int count = kChannelsLast || rest >= kTogether ? kTogether : static_cast<int>(rest);
            store_fragment(output, outputs, count, kPack > 1 || args.aligned != 0, rest > 0);
        }
    }
}

/// A thread's cell, counted in cells along each dimension. In channels-last cells are numbered along D first, where the
/// windows of neighbours have the most in common.
struct Cell {
    Offset d, h, w;

    __device__ __forceinline__ Cell(const CellArguments& args, int64_t block) {
        const Offset cell = static_cast<Offset>(block) * (kThreads / kLanes) + threadIdx.x / kLanes;
        const Offset cells_d = static_cast<Offset>(args.cells.d), cells_h = static_cast<Offset>(args.cells.h),
                     cells_w = static_cast<Offset>(args.cells.w);
        if constexpr (kChannelsLast) {
            d = cell % cells_d;
            w = cell / cells_d % cells_w;
            h = cell / cells_d / cells_w;
        } else {
            w = cell % cells_w;
            h = cell / cells_w % cells_h;
            d = cell / cells_w / cells_h;
        }
    }
    __device__ __forceinline__ bool exists(const CellArguments& args) const {
        return kChannelsLast ? h < static_cast<Offset>(args.cells.h) : d < static_cast<Offset>(args.cells.d);
    }
};

/// Computes one item and returns its tile of channels. `before` is the tile of the CTA's item before, or -1.
__device__ __forceinline__ int correlate_item(const CellArguments& args, const Output& output, int64_t item,
                                              int before) {
    const int64_t in_voxels = args.in_extents.d * args.in_extents.h * args.in_extents.w;
    const int64_t channel_stride = kChannelsLast ? 1 : in_voxels;
    const int64_t n = item / args.blocks / kAllTiles;
    const int tile = static_cast<int>(item / args.blocks % kAllTiles);
    const Channels channels(tile);
    const int first = channels.first + threadIdx.x % kLanes * kPack; // a pack exists as a whole
    const int own = first < channels.end ? first : channels.end - kPack;
    const Storage* const channel = static_cast<const Storage*>(args.in) + n * kAllInChannels * in_voxels +
                                   own / kOutChannels * kInChannels * channel_stride;
    const Cell cell(args, item % args.blocks);
    const Window window = {cell.d * (kCellD / kStrideD * kInStrideD), cell.h * (kCellH / kStrideH * kInStrideH),
                           cell.w * (kCellW / kStrideW * kInStrideW), cell.exists(args)};
    Sums sums;
    sum_cell(sums, args, channels, tile == before, window, channel, channel_stride);
    if (window.exists) {
#pragma unroll
        for (int i = 0; i < kThreadChannels; i += kPack) {
            const int stored = first + i * kChannelStep;
            if (stored < channels.end)
                store_cell(args, output, sums, i, n, stored, cell.d * kCellD, cell.h * kCellH, cell.w * kCellW);
        }
    }
    return tile;
}

/// Computes all items of a CTA: ranges of neighbours.
__device__ __forceinline__ void correlate(const CellArguments& args, const Output& output) {
    int tile = -1;
    for (int64_t first = blockIdx.x * args.range; first < args.items; first += gridDim.x * args.range) {
        const int64_t end = min(first + args.range, args.items);
        for (int64_t item = first; item < end; ++item) tile = correlate_item(args, output, item, tile);
    }
}

} // namespace
