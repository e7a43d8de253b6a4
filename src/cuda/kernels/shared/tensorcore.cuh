#pragma once

// What host and device agree on about the tensor-core kernels. Both compile this file.
#include "base/types.cuh"

namespace tconv3d::cuda::tensorcore {

/// How slices of the input and of the output meet along D.
enum class Form {
    streamed, ///< An input slice is multiplied for all output slices that it adds to.
    gathered, ///< An output slice is made of all input slices that it reads.
};

/// How the input gets into the stages.
enum class Source {
    swizzled,      ///< TMA writes all channels of a stage of a voxel side by side, as wgmma reads them.
    rows,          ///< TMA brings the rows of channel planes one by one, and warps rearrange them.
    whole_rows,    ///< As rows; the tile has whole rows, of which TMA brings several in one box.
    whole_planes,  ///< As rows; the tile has whole planes, which TMA brings in one box.
    ranges,        ///< TMA brings the rows of a tile as one range of bytes of each channel, and warps rearrange them.
    core_matrices, ///< TMA brings core matrices of fp32, which warps split in two tf32 parts.
    global,        ///< Warps load single elements from global memory.
};

/// How accumulators get into the output.
enum class Store {
    voxels,      ///< The phases of a voxel along W, in one access where they are aligned.
    pairs,       ///< Two voxels in one access.
    quads,       ///< Four voxels in one access: lanes exchange theirs.
    channels,    ///< Neighbouring channels in one access.
    bulk_rows,   ///< Whole rows pass through shared memory, and TMA writes those of a channel as one range.
    warp_rows,   ///< Each warp passes rows of its channels through shared memory.
    seamed_rows, ///< As warp_rows; sectors in which two rows meet are cleared before.
};

/// Who packs the weights, and what the packed ones hold.
enum class Packing {
    every_rotation, ///< A kernel of its own packs them for every rotation of the accumulator rings.
    one_rotation,   ///< The same for one rotation, which the copies into the stages turn into the others.
    by_cta,         ///< Each CTA packs those of its channels, which all fit into its shared memory.
};

/// Bytes of the table of the elements that warps rearrange one by one, of so many rows of so many images.
constexpr int element_table_bytes(int images, int rows, int columns) {
    return (images * rows * columns * 4 + 127) / 128 * 128;
}

struct Extents3 {
    int32_t d, h, w;
};

/// What work items are counted by.
struct ItemGrid {
    int32_t depth; ///< slices q along D, or groups of them where a tile has several; output slices in the gathered form
    int32_t tiles_h, tiles_w;
    int32_t channel_tiles; ///< of a group
};

/// What CTAs take of the work items: whole ones in turn, then equal shares of the slices of those that are left.
struct ItemShares {
    int32_t whole_items;
    int32_t rest;  ///< slices of the items that are not whole
    int32_t share; ///< slices of these that a CTA takes
};

/// A divisor, as what a multiplication takes instead. It divides numbers below 2^31 / divisor.
struct Reciprocal {
    uint32_t multiplier;
};

constexpr Reciprocal reciprocal(uint32_t divisor) {
    return {((uint32_t{1} << 31) + divisor - 1) / divisor};
}

/// The tile of a work item and its staged plane, where a kernel serves tensors of any size: config.hpp tells what each
/// is.
struct TileGeometry {
    int32_t tile_h, tile_w, images;
    int32_t rows, pitch, tail, plane_pitch;
    Reciprocal by_pitch, by_image; ///< by positions of a row, and of an image
    int32_t raw_rows, raw_pitch;   ///< of the input, where TMA brings rows
    int32_t raw_bytes;             ///< of a stage of these
    int32_t warpgroups;            ///< consumers that have positions
};

/// The argument of both forms' kernels. `in` is what is read and `out` what is written: src and dst in fwd, the
/// gradients of dst and src in bwd_data.
struct TensorCoreArguments {
    const unsigned char* weights; ///< packed, or as they are where CTAs pack them
    const unsigned char* in;
    int64_t out_slice; ///< voxels of an output slice
    int32_t batch;
    Extents3 in_extents; ///< d counts groups of slices where a tile has several
    int32_t in_slices;   ///< input slices that are read, or groups of them
    Extents3 out_extents;
    ItemGrid grid;
    ItemShares shares;
    int32_t weight_channels_last; ///< for CTAs that pack
    TileGeometry geometry;        ///< where a kernel serves any size
};

} // namespace tconv3d::cuda::tensorcore
