#pragma once

// The arguments of the cells kernels, for host and device: both compile this file.
#include "shared/voxel_extents.cuh"

namespace tconv3d::cuda {

/// `in` is what is read: src in fwd, the gradient of dst in bwd_data.
struct CellArguments {
    const void* in;
    const void* weight;
    VoxelExtents in_extents;
    VoxelExtents out_extents;
    VoxelExtents cells; ///< that cover the output
    int64_t blocks;     ///< of cells, for a tile of channels of an image
    int64_t items;      ///< blocks times tiles times images
    int64_t range;      ///< items that a CTA has one after the other
    int64_t aligned;    ///< whether rows of a cell's outputs may move in one access
};

/// How bwd_weight cuts the voxels of src.
struct CellSplits {
    int64_t cells_h;     ///< cells that cover a slice, along H
    int64_t cells_w;     ///< and along W
    int64_t blocks;      ///< of these cells, as many as a CTA has at a time
    int64_t tiles;       ///< blocks times slices times images
    int64_t split_tiles; ///< tiles of a split
    int64_t items;       ///< splits times blocks of channels
};

struct CellBwdWeightArguments {
    const void* src;
    const void* grad_dst;
    void* partials; ///< [split][weight, then bias], in the type of sums
    VoxelExtents src_extents;
    VoxelExtents dst_extents;
    CellSplits cut;
    int64_t sums_bias; ///< whether the gradient of the bias is wanted
};

} // namespace tconv3d::cuda
