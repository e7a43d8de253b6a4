#pragma once

// The window of a cell: the voxels that its outputs read, a slice at a time. kShiftD, kShiftH and kShiftW list where
// they lie, relative to the cell's first. In a row, kVector voxels from that first one on are side by side in memory,
// and no other cell has them there: they come in one access.
#include "base/storage.cuh"
#include "shared/voxel_extents.cuh"

namespace {

constexpr int kSlice = kShiftsH * kShiftsW; // voxels of the window for one shift along D

/// Where a thread's cell lies in the input: the voxel of shift 0.
struct Window {
    Offset d, h, w;
    bool exists; ///< the thread has a cell
};

/// Negative indexes fail too: they are large without a sign.
__device__ __forceinline__ bool is_index(Offset index, int64_t extent) {
    return static_cast<UnsignedOffset>(index) < static_cast<UnsignedOffset>(extent);
}

/// Loads one row of the window's slice, B-th along H, and those after it; what lies outside of the input counts as
/// zero. `slice` points to the voxel (h, w) = (0, window.w).
template <int kVoxelStride, int B = 0>
__device__ __forceinline__ void load_rows(Compute (&voxels)[kSlice], const tconv3d::cuda::VoxelExtents& extents,
                                          const Window& window, const Storage* slice, bool exists) {
    if constexpr (B < kShiftsH) {
        const Offset h = window.h + kShiftH[B];
        const Storage* const row = slice + h * (static_cast<Offset>(extents.w) * kVoxelStride);
        const bool row_exists = exists && is_index(h, extents.h);
        Pack<Storage, kVector> own{};
        if constexpr (kVector > 1) own = load_readonly_if<kVector>(row_exists && is_index(window.w, extents.w), row);
#pragma unroll
        for (int c = 0; c < kShiftsW; ++c) {
            Compute& voxel = voxels[B * kShiftsW + c];
            if (kVector > 1 && kShiftW[c] >= 0 && kShiftW[c] < kVector) {
                voxel = to_compute(own.elements[kShiftW[c]]);
            } else {
                const bool inside = row_exists && is_index(window.w + kShiftW[c], extents.w);
                voxel = inside ? load_readonly(row + kShiftW[c] * kVoxelStride) : Compute(0);
            }
        }
        load_rows<kVoxelStride, B + 1>(voxels, extents, window, slice, exists);
    }
}

/// The slice d of the input, of one channel.
template <int kVoxelStride>
__device__ __forceinline__ void load_slice(Compute (&voxels)[kSlice], const tconv3d::cuda::VoxelExtents& extents,
                                           const Window& window, Offset d, const Storage* channel) {
    const Offset row = d * static_cast<Offset>(extents.h) * static_cast<Offset>(extents.w);
    load_rows<kVoxelStride>(voxels, extents, window, channel + (row + window.w) * kVoxelStride,
                            window.exists && is_index(d, extents.d));
}

} // namespace
