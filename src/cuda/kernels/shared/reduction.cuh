#pragma once

// The family `reduce`: what its kernels are launched with, and where voxels lie in their shared memory. Host and device
// compile this file.
#include "shared/voxel_extents.cuh"

namespace tconv3d::cuda {

/// Voxels of src or grad_dst that a CTA has in shared memory at a time, a position for each. A row is sorted by phases
/// along W: voxels that are `phases` apart are neighbours, as neighbouring voxels of src meet them through one tap.
/// With two phases a row of seven voxels lies as 0 2 4 6 1 3 5.
struct StagedBox {
    int d, h, w;
    int phases;

    constexpr int voxels() const { return d * h * w; }
    constexpr int phase_columns() const { return (w + phases - 1) / phases; }
    constexpr int row_positions() const { return phases * phase_columns(); }
    constexpr int positions() const { return d * h * row_positions(); }
    /// The position of a voxel. It is linear, along W in multiples of `phases`, so that a tap is a constant distance:
    /// position(a + x, b + y, phases·k + z) = position(a, b, phases·k) + position(x, y, z).
    constexpr int position(int at_d, int at_h, int at_w) const {
        return (at_d * h + at_h) * row_positions() + at_w % phases * phase_columns() + at_w / phases;
    }
};

/// Voxels of grad_dst along a dimension that those of a box of src meet through a block of taps.
constexpr int64_t met_extent(int64_t box, int64_t stride, int64_t taps, int64_t dilation) {
    return stride * (box - 1) + dilation * (taps - 1) + 1;
}

/// How one of the two tensors is staged: as positions, each with the channels of a tile. Where copies cannot bring
/// these as they are, runs of neighbours in memory are copied first.
struct StagedTensor {
    StagedBox box;
    int channels; ///< of a tile
    int zeros;    ///< positions behind the last one that hold zeros
    int element_bytes;
    bool channels_last;
    bool aligned; ///< every run begins at a multiple of 16 bytes
    int parts;    ///< 2 where fp32 is split in two tf32 parts, else 1

    // A run is the channels of a voxel in channels_last_3d, else the voxels of a row in one channel. It takes as many
    // vectors of 16 bytes as hold it wherever it may begin.
    constexpr int runs() const { return channels_last ? box.voxels() : channels * box.d * box.h; }
    constexpr int run_elements() const { return channels_last ? channels : box.w; }
    constexpr int run_vectors() const {
        return (run_elements() * element_bytes + (aligned ? 0 : 16 - element_bytes) + 15) / 16;
    }
    constexpr int run_bytes() const { return run_vectors() * 16; }
    constexpr int raw_bytes() const { return runs() * run_bytes(); }

    /// The eight positions that ldmatrix reads at a time must be in different banks: they lie an odd multiple of 16
    /// bytes apart. In fp32 a lane reads channel g at voxel t: voxels are 8 or 24 words apart, modulo the 32 banks.
    constexpr int position_bytes() const {
        const int bytes = channels * element_bytes;
        if (element_bytes == 2) return bytes % 32 == 0 ? bytes + 16 : bytes;
        return bytes % 64 == 0 ? bytes + 32 : bytes;
    }
    constexpr int part_bytes() const { return (box.positions() + zeros) * position_bytes(); }
    constexpr int bytes() const { return parts * part_bytes(); }
    constexpr int vectors() const { return channels * element_bytes / 16; } ///< of a position, in one part
};

/// Whether copies bring positions as they are: no element is rounded, and channels are runs of whole vectors.
constexpr bool copies_positions(const StagedTensor& src, const StagedTensor& dst) {
    return src.element_bytes == 2 && src.channels_last && src.aligned && dst.aligned;
}

struct ReductionArguments {
    const void* src;
    const void* grad_dst;
    void* sums; ///< grad_weight, or the sums of all splits in fp32
    int64_t batch;
    VoxelExtents src_extents;
    VoxelExtents dst_extents;
    VoxelExtents tiles; ///< boxes of an image
    int64_t all_tiles;  ///< of all images
    int64_t splits;
};

struct ReductionBiasArguments {
    const void* grad_dst;
    float* sums; ///< of all channels, for each part
    int64_t batch;
    int64_t channels;
    int64_t voxels;
    int64_t parts;
};

} // namespace tconv3d::cuda
