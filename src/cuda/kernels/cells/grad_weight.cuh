#pragma once

// The products of a cell of src with its window of grad_dst: what a thread of cells_bwd_weight.cuh sums, for which
// channels, and where it reads.
#include "load/cell_window.cuh"
#include "shared/cells.cuh"

namespace {

using tconv3d::cuda::CellBwdWeightArguments;
using tconv3d::cuda::VoxelExtents;

constexpr int kVolume = kCellH * kCellW;
constexpr int kPairs = kSrcBlock * kDstBlock * kPack; // numbered by channel of src, of dst, and of a pack
constexpr int kWeightSums = kPairs * kPlaneTaps;
constexpr int kBiasSums = kDstBlock * kPack;
constexpr int kSums = kWeightSums + kBiasSums; // of a thread: pair by pair the taps, then the bias
constexpr int kTapsD = kShiftsD;               // tap a reads at kShiftD[a]
constexpr int kTapThreads = kThreads / kTapsD;
constexpr int kCells = kTapThreads / kLanes; // of a CTA

constexpr int kAllSrcChannels = kGroups * kSrcChannels, kAllDstChannels = kGroups * kDstChannels;
constexpr int kSrcStride = kChannelsLast ? kAllSrcChannels : 1; // from a voxel to the next
constexpr int kDstStride = kChannelsLast ? kAllDstChannels : 1;
constexpr int kSrcBlocks = (kSrcChannels + kSrcBlock - 1) / kSrcBlock; // of a group
constexpr int kDstBlocks = (kDstChannels + kDstBlock - 1) / kDstBlock;
constexpr bool kCutsAllDst = kLanes * kPack > 1; // whether blocks of channels of dst go across groups
constexpr int kLaneBlocks = (kAllDstChannels + kLanes * kPack - 1) / (kLanes * kPack);
constexpr int64_t kAllBlocks = int64_t{1} * kSrcBlocks * (kCutsAllDst ? kLaneBlocks : kGroups * kDstBlocks);
constexpr int64_t kTaps = int64_t{1} * kTapsD * kPlaneTaps;
constexpr int64_t kWeights = kTaps * kAllSrcChannels * kDstChannels;

using Sums = Compute[kSums];
using Factors = Voxel[kSrcBlock][kVolume]; // the voxels of a cell

/// What a thread has summed in all chains. A thread with packs has many sums, and leaves these in shared memory: in
/// registers they would keep a third CTA from the multiprocessor.
struct TotalsInRegisters {
    Sums values;

    __device__ __forceinline__ Compute& operator[](int i) { return values[i]; }
};
struct TotalsInShared {
    Compute* values;

    __device__ __forceinline__ TotalsInShared() {
        __shared__ Compute all[kSums * kThreads];
        values = all + threadIdx.x;
    }
    __device__ __forceinline__ Compute& operator[](int i) { return values[i * kThreads]; }
};
using Totals = Select<(kPack > 1) && kSplitsChains, TotalsInShared, TotalsInRegisters>;

/// The channels of a thread, or its packs: the first one of src and of dst, counted through all groups, and how many of
/// them exist. A lane behind the last channel of dst has none.
struct Channels {
    int src, dst, src_count, dst_count;

    __device__ __forceinline__ Channels(int64_t block, int lane) {
        const int src_block = static_cast<int>(block % kSrcBlocks), dst_block = static_cast<int>(block / kSrcBlocks);
        if constexpr (!kCutsAllDst) {
            const int first = dst_block % kDstBlocks * kDstBlock;
            dst = dst_block / kDstBlocks * kDstChannels + first;
            dst_count = kDstChannels - first < kDstBlock ? kDstChannels - first : kDstBlock;
        } else {
            const int own = (dst_block * kLanes + lane) * kPack;
            dst_count = own < kAllDstChannels ? 1 : 0;
            dst = dst_count > 0 ? own : kAllDstChannels - kPack;
        }
        const int first = src_block * kSrcBlock;
        src = dst / kDstChannels * kSrcChannels + first;
        src_count = kSrcChannels - first < kSrcBlock ? kSrcChannels - first : kSrcBlock;
    }

    /// Whether this thread sums the bias: several blocks read a channel of dst, and the one with the group's first
    /// channels of src does.
    __device__ __forceinline__ bool sums_bias() const { return src % kSrcChannels == 0; }
};

/// Which part of a CTA's work a thread has.
struct Part {
    int tap_d;
    int cell; ///< of kCells
    int lane; ///< of kLanes, which have neighbouring channels of dst
};

/// Where a thread reads: its cell in a slice of src with the window, and both tensors from its image and first channel
/// on.
struct Place {
    Offset h, w; ///< of the cell, counted in cells
    Window window;
    bool has_more; ///< whether more voxels of dst belong to the cell along H or W than its window has
    const Storage* src;
    const Storage* grad_dst;
};

__device__ __forceinline__ int64_t volume(const VoxelExtents& extents) {
    return extents.d * extents.h * extents.w;
}

/// Elements from a channel to the next.
__device__ __forceinline__ int64_t channel_stride(const VoxelExtents& extents) {
    return kChannelsLast ? 1 : volume(extents);
}

/// The i-th of a thread's channels, of which `count` exist. In place of one that does not it is the first one.
__device__ __forceinline__ const Storage* channel(const Storage* first, const VoxelExtents& extents, int i, int count) {
    return i < count ? first + i * channel_stride(extents) : first;
}

template <typename AnySums>
__device__ __forceinline__ void clear(AnySums& sums) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = 0;
}

/// Loads the voxels of the cell in slice d of src, zeros where there are none.
__device__ __forceinline__ void load_factors(Factors& factors, const VoxelExtents& extents, const Channels& channels,
                                             const Place& place, Offset d) {
    constexpr int kWide = kChannelsLast ? 1 : kCellW; // voxels in one access
#pragma unroll
    for (int a = 0; a < kSrcBlock; ++a) {
        const Storage* const first = channel(place.src, extents, a, channels.src_count);
#pragma unroll
        for (int at = 0; at < kVolume; at += kWide) {
            const Offset h = place.h * kCellH + at / kCellW, w = place.w * kCellW + at % kCellW;
            const bool exists = place.window.exists && is_index(h, extents.h) && is_index(w, extents.w);
            const Storage* const voxel =
                first + ((d * static_cast<Offset>(extents.h) + h) * static_cast<Offset>(extents.w) + w) * kSrcStride;
            if constexpr (kWide > 1) {
                const Pack<Storage, kWide> pack = load_readonly_if<kWide>(exists, voxel);
#pragma unroll
                for (int i = 0; i < kWide; ++i) factors[a][at + i].elements[0] = pack.elements[i];
            } else {
                factors[a][at] = load_readonly_if<kPack>(exists, voxel);
            }
        }
    }
}

/// Multiplies the voxels of a window's slice from V on with the voxels of the cell that taps join them to. `sums` are
/// those of the pairs with the first channel of src.
template <int V = 0>
__device__ __forceinline__ void multiply_slice(Compute* sums, const Voxel (&voxels)[kSlice], const Factors& factors) {
    if constexpr (V < kSlice) {
        Compute values[kPack];
        to_compute(voxels[V], values);
#pragma unroll
        for (int use = kUseBegin[V]; use < kUseBegin[V + 1]; ++use) {
#pragma unroll
            for (int a = 0; a < kSrcBlock; ++a) {
                Compute met[kPack];
                to_compute(factors[a][kUseOutput[use]], met);
#pragma unroll
                for (int i = 0; i < kPack; ++i)
                    sums[(a * kDstBlock * kPack + i) * kPlaneTaps + kUseTap[use]] += values[i] * met[i];
            }
        }
        multiply_slice<V + 1>(sums, voxels, factors);
    }
}

} // namespace
