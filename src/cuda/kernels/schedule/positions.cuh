#pragma once

// Which position of a staged plane each row of a product stands for, and which voxel of the tile a position is.
#include "schedule/constants.cuh"

namespace {

/// The warpgroup of the thread, from a shuffle: so the assembler knows that all lanes have the same one. It would
/// serialise products in a branch that lanes may leave.
__device__ __forceinline__ int uniform_warpgroup() {
    return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
}

/// The first position of product m of a thread's warpgroup. Products of 64 rows follow one another through the
/// warpgroups.
__device__ __forceinline__ int tile_position(int thread, int m) {
    if constexpr (kGathered) return m * (kColumns / 8) * kCoreStride;
    const int tile = thread / 128 * kMTiles + m;
    if constexpr (kBlocksW == 0) return tile * 64;
    constexpr int kWidth = kBlocksW == 0 ? 1 : kBlocksW, kBlocks = kBlocksH == 0 ? 1 : kBlocksH * kWidth;
    const int image = tile / kBlocks, block = tile % kBlocks;
    return (image * kPlaneRows + block / kWidth * 8) * kPitch + block % kWidth * 8;
}

/// The first position that product m of a thread's warpgroup reads. Blocks may be fewer than the products of all
/// warpgroups: a product without one is not stored, and reads what that of the first warpgroup does. Its own positions
/// would lie behind the stage.
__device__ __forceinline__ int operand_position(int thread, int m) {
    constexpr int kProducts = kBlocksW == 0 ? kActiveConsumers * kMTiles : kImages * kBlocksH * kBlocksW;
    return tile_position((kActiveConsumers - 1) * kMTiles + m < kProducts ? thread : 0, m);
}

/// One of the rows, or columns in the gathered form, of a product, from its first position.
__device__ __forceinline__ int row_offset(int row) {
    return row / 8 * kCoreStride + row % 8;
}

/// The position of one of these of product m of a thread's warpgroup.
__device__ __forceinline__ int row_position(int thread, int m, int row) {
    return tile_position(thread, m) + row_offset(row);
}

/// Where a position lies in the tile.
struct Voxel {
    int image, row, column;
};

__device__ __forceinline__ Voxel voxel_at(int position) {
    Voxel voxel;
    if constexpr (kInterleaved) {
        voxel.row = position / kRowPitch;
        voxel.image = position % kRowPitch / kPitch;
    } else {
        voxel.image = kImages == 1 ? 0 : position / kImagePitch;
        voxel.row = (position - voxel.image * kImagePitch) / kPitch;
    }
    voxel.column = position % kPitch;
    return voxel;
}

/// One of `count` positions of each staged plane, plane after plane.
struct StagedPosition {
    int plane, of_plane;
    __device__ __forceinline__ StagedPosition(int index, int count)
        : plane(kStagedPlanes == 1 ? 0 : index / count), of_plane(kStagedPlanes == 1 ? index : index % count) {}
    __device__ __forceinline__ int position() const { return plane * kInPlanePitch + of_plane; }
};

} // namespace
