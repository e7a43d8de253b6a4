#pragma once

// The gradient of the bias beside the products of cells: each voxel of grad_dst belongs to one cell, whose threads add
// it to the sums of its channel. Most voxels of a cell are in its window, which is loaded anyway (add_own); a cell that
// has more adds all of its voxels by themselves (add_bias).
#include "cells/grad_weight.cuh"

namespace {

// How many voxels of dst belong to a cell along each dimension: those from cell · kOwn on. All that are left belong to
// the last cell, so that every voxel belongs to one cell, whether taps reach it or not.
constexpr int kOwnD = kInStrideD, kOwnH = kCellH * kInStrideH, kOwnW = kCellW * kInStrideW;

/// Whether the shifts of a window include 0 to own − 1.
template <typename Shift, int kCount>
constexpr bool covers(const Shift (&shifts)[kCount], int own) {
    int found = 0;
    for (int i = 0; i < kCount; ++i) found += shifts[i] >= 0 && shifts[i] < own ? 1 : 0;
    return found == own;
}
constexpr bool kWindowHasOwn = covers(kShiftD, kOwnD) && covers(kShiftH, kOwnH) && covers(kShiftW, kOwnW);

/// Whether more than `own` voxels along a dimension belong to the m-th of `count` cells.
__device__ __forceinline__ bool has_more(Offset m, int64_t count, int own, int64_t extent) {
    return m + 1 == static_cast<Offset>(count) && extent > count * own;
}

/// Adds the voxels of a slice of the window that belong to the cell.
__device__ __forceinline__ void add_own(Compute* sums, const Voxel (&voxels)[kSlice]) {
    Compute share[kPack] = {};
#pragma unroll
    for (int v = 0; v < kSlice; ++v) {
        const auto h = kShiftH[v / kShiftsW], w = kShiftW[v % kShiftsW];
        if (h < 0 || h >= kOwnH || w < 0 || w >= kOwnW) continue;
        Compute values[kPack];
        to_compute(voxels[v], values);
#pragma unroll
        for (int i = 0; i < kPack; ++i) share[i] += values[i];
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] += share[i];
}

/// The indexes of dst along a dimension that belong to the m-th of `count` cells.
struct Share {
    Offset first, end;

    __device__ __forceinline__ Share(Offset m, int64_t count, int own, int64_t extent) {
        first = m * own;
        const Offset all = static_cast<Offset>(extent);
        end = m + 1 < static_cast<Offset>(count) && first + own < all ? first + own : all;
    }
};

/// Adds all voxels of dst that belong to a cell. The threads of the cell, one for each tap along D, share the rows.
__device__ __forceinline__ void add_bias(Compute* sums, const CellBwdWeightArguments& args, const Channels& channels,
                                         const Place& place, Offset d, int tap_d) {
    const VoxelExtents& extents = args.dst_extents;
    const Share slices(d, args.src_extents.d, kOwnD, extents.d);
    const Share rows(place.h, args.cut.cells_h, kOwnH, extents.h);
    const Share columns(place.w, args.cut.cells_w, kOwnW, extents.w);
    constexpr int kWide = kPack > 1 ? kPack : kVector; // in one access: channels or voxels
    Compute share[kBiasSums] = {};
#pragma unroll 1
    for (Offset h = rows.first + tap_d; h < rows.end; h += kTapsD) {
#pragma unroll 1
        for (Offset slice = slices.first; slice < slices.end; ++slice) {
            const Offset row = (slice * static_cast<Offset>(extents.h) + h) * static_cast<Offset>(extents.w);
#pragma unroll 1
            for (Offset w = columns.first; w < columns.end; w += kVector) {
#pragma unroll
                for (int b = 0; b < kDstBlock; ++b) {
                    const Storage* const voxel =
                        channel(place.grad_dst, extents, b, channels.dst_count) + (row + w) * kDstStride;
                    Compute values[kWide];
                    to_compute(load_readonly_if<kWide>(true, voxel), values);
#pragma unroll
                    for (int i = 0; i < kWide; ++i) share[b * kPack + i % kPack] += values[i];
                }
            }
        }
    }
#pragma unroll
    for (int b = 0; b < kBiasSums; ++b) sums[b] += share[b];
}

} // namespace
