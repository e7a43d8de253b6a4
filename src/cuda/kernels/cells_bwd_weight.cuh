// bwd_weight by cells, on the ordinary units:
//
//     grad_weight[ci, co, j] = Σ src[n, ci, i] · grad_dst[n, co, s·i − p + j·d]    over images n and voxels i
//     grad_bias[co]          = Σ grad_dst[n, co, o]                                over images n and voxels o
//
// A cell is a block of kCellH x kCellW voxels of one slice of src. Its window is the voxels of grad_dst that taps join
// them to. A thread loads both once and multiplies each pair that a tap joins. Along W, with stride 2 and three taps:
//
//     src, the cell            i0          i1
//     grad_dst, the window     o0    o1    o2    o3    o4
//     products                 i0·o0 and i1·o2 for tap 0, i0·o1 and i1·o3 for tap 1, i0·o2 and i1·o4 for tap 2
//
// The sums of all taps along H and W stay in registers, for one tap along D and kSrcBlock x kDstBlock pairs of
// channels, or the pairs of a pack.
//
//     a thread   a tap along D, a cell, and in channels-last a channel of dst, or a pack of them
//     a CTA      all taps along D, kCells cells and kLanes channels; a block of channels, and a split of the voxels
//     add_splits.cuh   adds the partial sums that the CTAs of all splits have stored
//
// A CTA walks along D, slice by slice, so that the L1 cache has what two windows share.
#include "cells/grad_bias.cuh"
#include "cells/store_partials.cuh"

namespace {

/// Adds the products of a cell in slice d of src for the tap `tap_d`, and this thread's part of the bias.
__device__ __forceinline__ void add_cell(Compute* sums, const CellBwdWeightArguments& args, const Channels& channels,
                                         const Place& place, Offset d, int tap_d) {
    const Offset slice = d * kInStrideD + kShiftD[tap_d];
    const bool sums_bias = args.sums_bias != 0 && channels.sums_bias();
    const bool has_own =
        kWindowHasOwn && !place.has_more && !has_more(d, args.src_extents.d, kOwnD, args.dst_extents.d);
    const bool sums_own = sums_bias && has_own && kShiftD[tap_d] >= 0 && kShiftD[tap_d] < kOwnD;
    if (is_index(slice, args.dst_extents.d)) {
        Factors factors;
        load_factors(factors, args.src_extents, channels, place, d);
#pragma unroll
        for (int b = 0; b < kDstBlock; ++b) {
            Voxel voxels[kSlice];
            load_slice<kDstStride>(voxels, args.dst_extents, place.window, slice,
                                   channel(place.grad_dst, args.dst_extents, b, channels.dst_count));
            multiply_slice(sums + b * kPack * kPlaneTaps, voxels, factors);
            if (sums_own) add_own(sums + kWeightSums + b * kPack, voxels);
        }
    }
    if (sums_bias && !has_own && place.window.exists) add_bias(sums + kWeightSums, args, channels, place, d, tap_d);
}

/// Adds the slices d to last − 1 of src for a block of cells. Where chains are split, few slices at a time are summed
/// by themselves.
__device__ __forceinline__ void sum_slices(Totals& totals, const CellBwdWeightArguments& args, const Channels& channels,
                                           const Place& place, Offset d, Offset last, int tap_d) {
    while (d < last) {
        if constexpr (kSplitsChains) {
            Sums sums;
            clear(sums);
            const Offset chain_end = d + kChain < last ? d + kChain : last;
#pragma unroll 1
            for (; d < chain_end; ++d) add_cell(sums, args, channels, place, d, tap_d);
#pragma unroll
            for (int i = 0; i < kSums; ++i) totals[i] += sums[i];
        } else {
            add_cell(totals.values, args, channels, place, d++, tap_d);
        }
    }
}

/// Adds the tiles of a split. A tile is a slice of a block of cells; they run along D, then through the blocks, then
/// through the images.
__device__ __forceinline__ void sum_tiles(Totals& totals, const CellBwdWeightArguments& args, const Channels& channels,
                                          int64_t split, const Part& part) {
    const int64_t slices = args.src_extents.d;
    int64_t tile = split * args.cut.split_tiles;
    const int64_t end = min(tile + args.cut.split_tiles, args.cut.tiles);
    while (tile < end) {
        const int64_t column = tile / slices, n = column / args.cut.blocks;
        const Offset cell = static_cast<Offset>(column % args.cut.blocks) * kCells + part.cell;
        const Offset cells_w = static_cast<Offset>(args.cut.cells_w);
        const Offset h = cell / cells_w, w = cell % cells_w;
        const Place place = {h,
                             w,
                             {0, h * kOwnH, w * kOwnW, h < static_cast<Offset>(args.cut.cells_h)},
                             has_more(h, args.cut.cells_h, kOwnH, args.dst_extents.h) ||
                                 has_more(w, args.cut.cells_w, kOwnW, args.dst_extents.w),
                             static_cast<const Storage*>(args.src) + n * kAllSrcChannels * volume(args.src_extents) +
                                 channels.src * channel_stride(args.src_extents),
                             static_cast<const Storage*>(args.grad_dst) +
                                 n * kAllDstChannels * volume(args.dst_extents) +
                                 channels.dst * channel_stride(args.dst_extents)};
        const Offset first = static_cast<Offset>(tile - column * slices);
        tile = min((column + 1) * slices, end);
        const Offset last = static_cast<Offset>(tile - column * slices);
        sum_slices(totals, args, channels, place, first, last, part.tap_d);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kCtas)
    cells_bwd_weight(const __grid_constant__ CellBwdWeightArguments args) {
    const int thread = threadIdx.x;
    const Part part = {thread / kTapThreads, thread % kTapThreads / kLanes, thread % kLanes};
    for (int64_t item = blockIdx.x; item < args.cut.items; item += gridDim.x) {
        const int64_t split = item / kAllBlocks, block = item % kAllBlocks;
        Totals totals;
        clear(totals);
        sum_tiles(totals, args, Channels(block, part.lane), split, part);
        Compute* const partials = static_cast<Compute*>(args.partials) + split * (kWeights + kAllDstChannels);
        store_partials(partials, totals, block, part);
    }
}
