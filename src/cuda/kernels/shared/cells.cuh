#pragma once

// The argument of the cells kernel, for host and device: both compile this file.
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
    int64_t aligned;    ///< whether rows of a cell's outputs may move in one access
};

} // namespace tconv3d::cuda
