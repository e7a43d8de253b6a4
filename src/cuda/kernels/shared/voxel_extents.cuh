#pragma once

// Host and device compile this file.
#include "base/types.cuh"

namespace tconv3d::cuda {

/// Voxels of a tensor along each dimension, or blocks of them.
struct VoxelExtents {
    int64_t d, h, w;
};

} // namespace tconv3d::cuda
