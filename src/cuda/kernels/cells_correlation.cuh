#pragma once

// fwd and bwd_data by cells: a thread owns a block of kCellD x kCellH x kCellW outputs, which are multiples of the
// output strides. So each of its outputs has a phase that is known at compile time, and each input voxel that they
// share is read once. In fwd the input stride is 1, in bwd_data the output stride is.
//
// Output (cell · m + b) meets tap j at input (cell / stride · input stride) · m + shift. The host lists the shifts
// along each dimension and what each serves: pairs (output of the cell, tap), along D, and along H and W together for
// the slice of one shift.
//
// Neighbouring threads take neighbouring outputs. In channels-last kLanes threads share a cell, one channel each;
// otherwise kLanes is 1. A thread has kThreadChannels channels, kLanes apart. A tile of kLanes * kThreadChannels
// channels belongs to one group, or each lane belongs to its own (kThreadChannels is 1 then).
#include "load/cell_window.cuh"
#include "shared/cells.cuh"
#include "store/vectors.cuh"

namespace {

using tconv3d::cuda::CellArguments;

constexpr int kVolume = kCellD * kCellH * kCellW;
constexpr int kTile = kLanes * kThreadChannels;
constexpr int kTiles = (kSpace + kTile - 1) / kTile; // of the channels that tiles divide: a group's or all
constexpr int kAllTiles = kGroups * kOutChannels / kSpace * kTiles;
constexpr int kChunks = (kInChannels + kChunk - 1) / kChunk;
constexpr int kAllInChannels = kGroups * kInChannels;
constexpr int kAllOutChannels = kGroups * kOutChannels;
constexpr int kVoxelStride = kChannelsLast ? kAllInChannels : 1;
// Few weights are read once for all outputs that use them; more would not stay in registers.
constexpr bool kHoldsWeights = kPlaneTaps * kThreadChannels * sizeof(Compute) <= 128;
// Staged weights of one tap along D; whole vectors, that neighbouring ones may come in one access.
constexpr int kPlane = (kPlaneTaps * kTile + 3) / 4 * 4;
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

template <int V, typename Weight>
__device__ __forceinline__ void multiply_slice(Compute (*sums)[kThreadChannels], const Compute (&voxels)[kSlice],
                                               const Weight& weight) {
    if constexpr (V < kSlice) {
#pragma unroll
        for (int use = kUseBegin[V]; use < kUseBegin[V + 1]; ++use) {
#pragma unroll
            for (int i = 0; i < kThreadChannels; ++i) sums[kUseOutput[use]][i] += voxels[V] * weight(kUseTap[use], i);
        }
        multiply_slice<V + 1>(sums, voxels, weight);
    }
}

/// `weights` of one input channel and one tap along D: [tap][tile], from this thread's lane on.
__device__ __forceinline__ void multiply_plane(Compute (*sums)[kThreadChannels], const Compute (&voxels)[kSlice],
                                               const Compute* weights) {
    if constexpr (kHoldsWeights) {
        Compute held[kPlaneTaps][kThreadChannels];
#pragma unroll
        for (int tap = 0; tap < kPlaneTaps; ++tap) {
#pragma unroll
            for (int i = 0; i < kThreadChannels; ++i) held[tap][i] = weights[tap * kTile + i * kLanes];
        }
        multiply_slice<0>(sums, voxels, [&](int tap, int i) { return held[tap][i]; });
    } else {
        multiply_slice<0>(sums, voxels, [&](int tap, int i) { return weights[tap * kTile + i * kLanes]; });
    }
}

/// The slices of the window from A on, each with the outputs and taps along D that it serves.
template <int A>
__device__ __forceinline__ void multiply_slices(Sums& sums, const CellArguments& args, const Window& window,
                                                const Storage* channel, const Compute* weights) {
    if constexpr (A < kShiftsD) {
        Compute voxels[kSlice];
        load_slice<kVoxelStride>(voxels, args.in_extents, window, window.d + kShiftD[A], channel);
#pragma unroll
        for (int use = kUseBeginD[A]; use < kUseBeginD[A + 1]; ++use) {
            multiply_plane(sums + kUseOutputD[use] * (kCellH * kCellW), voxels, weights + kUseTapD[use] * kPlane);
        }
        multiply_slices<A + 1>(sums, args, window, channel, weights);
    }
}

/// The same for a cell of one output along D, where a slice serves one tap: a loop, that long kernels stay short code.
__device__ __forceinline__ void walk_slices(Sums& sums, const CellArguments& args, const Window& window,
                                            const Storage* channel, const Compute* weights) {
#pragma unroll 1
    for (int a = 0; a < kShiftsD; ++a) {
        Compute voxels[kSlice];
        load_slice<kVoxelStride>(voxels, args.in_extents, window, window.d + kShiftD[a], channel);
        multiply_plane(sums, voxels, weights + kUseTapD[a] * kPlane);
    }
}

/// Brings the tile's weights of input channels first, first + 1, … as [channel][tap along D][tap][tile].
__device__ __forceinline__ void stage_weights(Compute* staged, const CellArguments& args, const Channels& channels,
                                              int first) {
    for (int index = threadIdx.x; index < kChunk * kTile * kTaps; index += kThreads) {
        const int tap = index % kTaps, place = index / kTaps % kTile, chunk = index / (kTaps * kTile);
        const int channel = channels.first + place, ci = first + chunk;
        const bool exists = channel < channels.end && ci < kInChannels;
        const int64_t group = channel / kOutChannels;
        const int co = channel % kOutChannels;
        const int64_t row =
            kFwd ? (group * kInChannels + ci) * kOutChannels + co : (group * kOutChannels + co) * kInChannels + ci;
        staged[(chunk * kKernelD + tap / kPlaneTaps) * kPlane + tap % kPlaneTaps * kTile + place] =
            exists ? load_readonly(static_cast<const Storage*>(args.weight) + row * kTaps + tap) : Compute(0);
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

/// One item's sums. `channel` points to the first input channel of the thread's group.
__device__ __forceinline__ void sum_cell(Sums& totals, const CellArguments& args, const Channels& channels,
                                         const Window& window, const Storage* channel, int64_t channel_stride) {
    __shared__ __align__(16) Compute staged[kChunk * kKernelD * kPlane];
    Sums sums;
    clear(totals);
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks; ++chunk) {
        __syncthreads();
        stage_weights(staged, args, channels, chunk * kChunk);
        __syncthreads();
        if constexpr (kSplitsChains) clear(sums);
        const int count = kInChannels - chunk * kChunk < kChunk ? kInChannels - chunk * kChunk : kChunk;
#pragma unroll 1
        for (int ci = 0; ci < count; ++ci) {
            const Compute* const weights = staged + ci * kKernelD * kPlane + threadIdx.x % kLanes;
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

/// Stores one channel of a cell whose first output is (d, h, w).
__device__ __forceinline__ void store_cell(const CellArguments& args, const Output& output, const Sums& sums, int i,
                                           int64_t n, int channel, Offset d, Offset h, Offset w) {
    const Compute bias = load_bias(output, channel);
    constexpr int kRow = kChannelsLast ? 1 : kCellW; // outputs side by side in memory
#pragma unroll
    for (int first = 0; first < kVolume; first += kRow) {
        const Offset at_d = d + first / (kCellH * kCellW), at_h = h + first / kCellW % kCellH,
                     at_w = w + first % kCellW;
        if (at_d >= static_cast<Offset>(args.out_extents.d) || at_h >= static_cast<Offset>(args.out_extents.h))
            continue;
        const Offset rest = static_cast<Offset>(args.out_extents.w) - at_w;
        if (rest <= 0) continue;
        const int64_t plane = kChannelsLast ? n : n * kAllOutChannels + channel;
        const int64_t voxel =
            ((plane * args.out_extents.d + at_d) * args.out_extents.h + at_h) * args.out_extents.w + at_w;
        const int64_t index = kChannelsLast ? voxel * kAllOutChannels + channel : voxel;
        Fragment<kRow, 0, int64_t> row{{}, {bias}, channel, index};
#pragma unroll
        for (int k = 0; k < kRow; ++k) row.values[k] = sums[first + k][i];
        store_fragment(output, row, rest < kRow ? static_cast<int>(rest) : kRow, args.aligned != 0, true);
    }
}

/// All items of a CTA.
__device__ __forceinline__ void correlate(const CellArguments& args, const Output& output) {
    const int lane = threadIdx.x % kLanes;
    const int64_t in_voxels = args.in_extents.d * args.in_extents.h * args.in_extents.w;
    const int64_t channel_stride = kChannelsLast ? 1 : in_voxels;
    for (int64_t item = blockIdx.x; item < args.items; item += gridDim.x) {
        const int64_t n = item / args.blocks / kAllTiles;
        const Channels channels(static_cast<int>(item / args.blocks % kAllTiles));
        const int own = channels.first + lane < channels.end ? channels.first + lane : channels.end - 1;
        const Storage* const channel = static_cast<const Storage*>(args.in) + n * kAllInChannels * in_voxels +
                                       own / kOutChannels * kInChannels * channel_stride;

        const Offset cell = static_cast<Offset>(item % args.blocks) * (kThreads / kLanes) + threadIdx.x / kLanes;
        const Offset cells_w = static_cast<Offset>(args.cells.w), cells_h = static_cast<Offset>(args.cells.h);
        const Offset w = cell % cells_w, h = cell / cells_w % cells_h, d = cell / cells_w / cells_h;
        const Window window = {d * (kCellD / kStrideD * kInStrideD), h * (kCellH / kStrideH * kInStrideH),
                               w * (kCellW / kStrideW * kInStrideW), d < static_cast<Offset>(args.cells.d)};
        Sums sums;
        sum_cell(sums, args, channels, window, channel, channel_stride);
        if (!window.exists) continue;
#pragma unroll
        for (int i = 0; i < kThreadChannels; ++i) {
            const int stored = channels.first + lane + i * kLanes;
            if (stored < channels.end) store_cell(args, output, sums, i, n, stored, d * kCellD, h * kCellH, w * kCellW);
        }
    }
}

} // namespace
