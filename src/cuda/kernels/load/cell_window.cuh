#pragma once

// The window of a cell: the voxels that its outputs read, a slice at a time. kShiftD, kShiftH and kShiftW list where
// they lie, relative to the cell's first. In a row, kVector voxels from that first one on are side by side in memory,
// and no other cell has them there: they come in one access.
//
// In channels-last, the channels of depthwise groups that a thread has are side by side in memory, too: kPack of them
// come in one access. Elsewhere kPack is 1, as all channels of a thread share what they read.
#include "base/storage.cuh"
#include "shared/voxel_extents.cuh"

namespace {

constexpr int kSlice = kShiftsH * kShiftsW; // voxels of the window for one shift along D

/// As it lies in memory. It is converted where it is multiplied: a conversion beside the load has its condition, and
/// the thread would wait for each load before it asks for the next one.
using Voxel = Pack<Storage, kPack>;

/// Where a thread's cell lies in the input: the voxel of shift 0.
struct Window {
    Offset d, h, w;
    bool exists; ///< the thread has a cell
};

/// Negative indexes fail too: they are large without a sign.
__device__ __forceinline__ bool is_index(Offset index, int64_t extent) {
    return static_cast<UnsignedOffset>(index) < static_cast<UnsignedOffset>(extent);
}

/// Loads the voxels of a row of the window from the C-th along W on. `own` are those that come in one access.
template <int kVoxelStride, int C = 0>
__device__ __forceinline__ void load_columns(Voxel* voxels, const tconv3d::cuda::VoxelExtents& extents,
                                             const Window& window, const Storage* row,
                                             const Pack<Storage, kVector>& own, bool row_exists) {
    if constexpr (C < kShiftsW) {
        constexpr int64_t kShift = kShiftW[C];
        if constexpr (kVector > 1 && kShift >= 0 && kShift < kVector) {
            voxels[C].elements[0] = own.elements[kShift];
        } else {
            const bool inside = row_exists && is_index(window.w + static_cast<Offset>(kShift), extents.w);
            voxels[C] = load_readonly_at_if<kPack, kShift * kVoxelStride>(inside, row);
        }
        load_columns<kVoxelStride, C + 1>(voxels, extents, window, row, own, row_exists);
    }
}

/// Loads one row of the window's slice, B-th along H, and those after it; what lies outside of the input counts as
/// zero. `slice` points to the voxel (h, w) = (0, window.w).
template <int kVoxelStride, int B = 0>
__device__ __forceinline__ void load_rows(Voxel (&voxels)[kSlice], const tconv3d::cuda::VoxelExtents& extents,
                                          const Window& window, const Storage* slice, bool exists) {
    if constexpr (B < kShiftsH) {
        const Offset h = window.h + kShiftH[B];
        const Storage* const row = slice + h * (static_cast<Offset>(extents.w) * kVoxelStride);
        const bool row_exists = exists && is_index(h, extents.h);
        Pack<Storage, kVector> own{};
        if constexpr (kVector > 1)
            own = load_readonly_at_if<kVector, 0>(row_exists && is_index(window.w, extents.w), row);
        load_columns<kVoxelStride>(voxels + B * kShiftsW, extents, window, row, own, row_exists);
        load_rows<kVoxelStride, B + 1>(voxels, extents, window, slice, exists);
    }
}

/// Loads the window's voxels of slice d of the input, in the channel or pack that `channel` points to.
template <int kVoxelStride>
__device__ __forceinline__ void load_slice(Voxel (&voxels)[kSlice], const tconv3d::cuda::VoxelExtents& extents,
                                           const Window& window, Offset d, const Storage* channel) {
    const Offset row = d * static_cast<Offset>(extents.h) * static_cast<Offset>(extents.w);
    load_rows<kVoxelStride>(voxels, extents, window, channel + (row + window.w) * kVoxelStride,
                            window.exists && is_index(d, extents.d));
}

} // namespace
