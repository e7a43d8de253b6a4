#pragma once

// The argument of the cells kernel, for host and device: both compile this file.
#ifdef __CUDACC_RTC__
#include "base/types.cuh"
#else
#include <cstdint>
#endif

namespace tconv3d::cuda {

struct CellExtents {
    int64_t d, h, w;
};

/// `in` is what is read: src in fwd, the gradient of dst in bwd_data.
struct CellArguments {
    const void* in;
    const void* weight;
    CellExtents in_extents;
    CellExtents out_extents;
    CellExtents cells; ///< that cover the output
    int64_t blocks;    ///< of cells, for a tile of channels of an image
    int64_t items;     ///< blocks times tiles times images
    int64_t aligned;   ///< whether rows of a cell's outputs may move in one access
};

} // namespace tconv3d::cuda
