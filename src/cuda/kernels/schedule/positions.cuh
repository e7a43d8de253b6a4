#pragma once

// Which position of a staged plane each row of a product stands for (a column in the gathered form), and which voxel of
// the tile a position is.
#include "schedule/geometry.cuh"

namespace {

/// The warpgroup of the thread. It comes from a shuffle, so that the assembler knows that all lanes have the same one:
/// it would serialise products in a branch that only some lanes may take.
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

/// The position that a row of a product stands for, counted from the product's first one.
__device__ __forceinline__ int row_offset(int row) {
    return row / 8 * kCoreStride + row % 8;
}

/// The position that a row of product m of a thread's warpgroup stands for.
__device__ __forceinline__ int row_position(int thread, int m, int row) {
    return tile_position(thread, m) + row_offset(row);
}

/// A product reads its positions by a shift further on than its rows stand for. The part of the shift that is whole
/// rows and input planes is a *shifted row*; the rest of it is a constant. Where pitches are constants, all of the
/// shift is, and there is one shifted row of no rows.
constexpr int kShiftedRows = count_of(kShiftedRow);

__device__ __forceinline__ int shifted_row(const Geometry& geometry, int row) {
    return kShiftedPlane[row] * geometry.plane_pitch() + kShiftedRow[row] * geometry.row_pitch();
}
__device__ __forceinline__ int product_shift(const Geometry& geometry, int product) {
    return shifted_row(geometry, kProductRow[product]) + kProductShift[product];
}

/// The positions by which all products of a pass read further on.
__device__ __forceinline__ int pass_shift(const Geometry& geometry, int pass) {
    int shift = 0;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
        const int of_pass = kPassPlane[i] * geometry.plane_pitch() + kPassRow[i] * geometry.row_pitch();
        shift = pass == i ? of_pass : shift;
    }
    return shift;
}

/// Where a position lies in the tile.
struct Voxel {
    int image, row, column;
};

__device__ __forceinline__ Voxel voxel_at(const Geometry& geometry, int position) {
    Voxel voxel;
    if constexpr (kInterleaved) {
        voxel.row = position / kRowPitch;
        voxel.image = position % kRowPitch / kPitch;
        voxel.column = position % kPitch;
    } else {
        voxel.image = geometry.images() == 1 ? 0 : geometry.image_of(position);
        const int of_image = position - voxel.image * geometry.image_pitch();
        voxel.row = geometry.row_of(of_image);
        voxel.column = kAnySize ? of_image - voxel.row * geometry.pitch() : position % kPitch;
    }
    return voxel;
}

/// A position of a stage, counted plane after plane through the first `count` positions of each staged plane.
struct StagedPosition {
    int plane, of_plane;
    __device__ __forceinline__ StagedPosition(int index, int count)
        : plane(kStagedPlanes == 1 ? 0 : index / count), of_plane(kStagedPlanes == 1 ? index : index % count) {}
    __device__ __forceinline__ int position(const Geometry& geometry) const {
        return plane * geometry.plane_pitch() + of_plane;
    }
};

} // namespace
