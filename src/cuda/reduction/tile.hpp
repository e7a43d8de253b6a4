#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/shared/reduction.cuh"
#include "cuda/runtime/driver.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cuda {

/// What a CTA of kernels/reduction.cuh owns, and how its work is divided.
struct ReductionTile {
    int64_t src_channels;    ///< rows of the products, a multiple of 16
    int64_t dst_channels;    ///< a multiple of 8: columns of the products are these for each tap of a block
    Extents taps;            ///< of a block
    Extents box;             ///< src voxels that are staged at a time
    int64_t row_warps;       ///< warps that divide the rows; the others divide the columns
    int64_t ctas = 1;        ///< of a multiprocessor
    int64_t splits = 1;      ///< of all boxes of all images
    double microseconds = 0; ///< estimated, for the whole problem

    std::string str() const;

    int64_t block_taps() const { return taps[0] * taps[1] * taps[2]; }
    int64_t box_voxels() const { return box[0] * box[1] * box[2]; }
    int64_t column_warps() const { return kThreads / 32 / row_warps; }
    int64_t warp_columns() const;                                       ///< n8 tiles of a warp
    int64_t warp_rows() const { return src_channels / 16 / row_warps; } ///< m16 tiles of a warp

    static constexpr int64_t kThreads = 256;
};

/// Stride and dilation, 1 along a dimension where there is nothing to step to: the others are then small enough for 32
/// bits, if tensors and padding are.
Extents reduction_stride(const Problem& problem);
Extents reduction_dilation(const Problem& problem);

/// Parts that an operand of the products is split in: 2 for fp32 in full.
int64_t reduction_parts(const Problem& problem);
/// Voxels of a k step, 32 bytes of an operand.
int64_t step_voxels(const Problem& problem);
int64_t box_steps(const Problem& problem, const ReductionTile& tile);

/// How a tile of each tensor lies in shared memory.
StagedTensor staged_src(const Problem& problem, const ReductionTile& tile);
StagedTensor staged_dst(const Problem& problem, const ReductionTile& tile);
/// Whether every channel of so many voxels begins alike within 16 bytes.
bool is_volume_aligned(const Problem& problem, int64_t voxels);
int64_t reduction_shared_bytes(const Problem& problem, const ReductionTile& tile);

/// CTAs of a split.
int64_t split_items(const Problem& problem, const ReductionTile& tile);
/// Boxes of an image.
VoxelExtents image_tiles(const Problem& problem, const ReductionTile& tile);
int64_t all_tiles(const Problem& problem, const ReductionTile& tile);

/// Sums that a split leaves to the second pass.
int64_t split_sums(const Problem& problem);

/// The tiles with the least estimated time, at most so many, the best first; none where no tile fits. Takes problems
/// that answer_reduce does not refuse before.
std::vector<ReductionTile> best_reduction_tiles(const Problem& problem, const Device& device, size_t most);

} // namespace tconv3d::cuda
