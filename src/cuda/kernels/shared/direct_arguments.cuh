#pragma once

// What the kernels of the family `direct` are launched with. Host and device compile this file.
#include "shared/voxel_extents.cuh"

namespace tconv3d::cuda {

/// direct_fwd reads src and writes dst, direct_bwd_data reads grad_dst and writes grad_src. Where results go is in
/// Output.
struct DirectCorrelationArguments {
    const void* in;
    const void* weight;
    VoxelExtents in_extents;
    VoxelExtents out_extents;
    int64_t items; ///< voxels of the results of all samples times blocks of channels
};

struct DirectBwdWeightArguments {
    const void* src;
    const void* grad_dst;
    void* grad_weight;
    void* grad_bias; ///< null where it is not wanted
    int64_t batch;
    VoxelExtents src_extents;
    VoxelExtents dst_extents;
};

} // namespace tconv3d::cuda
