#pragma once

// The family `outer`: what its kernel is launched with, and where voxels lie in its shared memory. Host and device
// compile this file.
#include "shared/voxel_extents.cuh"

namespace tconv3d::cuda {

/// A staged plane: voxels of one slice of src or grad_dst, row by row, with the channels of a CTA, as wgmma takes them
/// when it transposes. The channels are divided into *atoms*, which lie one behind the other. In an atom a voxel has
/// all its channels side by side, then comes the next voxel:
///
///     atom 0    v0 c0–63 | v1 c0–63 | v2 c0–63 | …       Eight neighbouring voxels are a core matrix whose channels
///     atom 1    v0 c64–127 | v1 c64–127 | …              are contiguous. A tap is a number of voxels.
///
/// In channels_last_3d TMA writes atoms of 16 to 64 channels, swizzled. In NCDHW warps write atoms of 8 channels.
struct OuterPlane {
    int channels; ///< of a CTA, a multiple of 16
    int h, w;     ///< voxels
    bool swizzled;

    static constexpr int kElementBytes = 2;
    static constexpr int kSwizzlePeriod = 1024; ///< The swizzle goes by addresses, and repeats after so many bytes.

    constexpr int atom_channels() const {
        return !swizzled ? 8 : channels % 64 == 0 ? 64 : channels % 32 == 0 ? 32 : 16;
    }
    constexpr int atoms() const { return channels / atom_channels(); }
    constexpr int voxel_bytes() const { return atom_channels() * kElementBytes; }
    constexpr int atom_bytes() const {
        const int voxels = h * w * voxel_bytes();
        return swizzled ? (voxels + kSwizzlePeriod - 1) / kSwizzlePeriod * kSwizzlePeriod : voxels;
    }
    /// In NCDHW planes are half of all banks apart: with stride 2 a warp stores in two neighbouring ones at a time.
    constexpr int bytes() const {
        const int all = atoms() * atom_bytes();
        return swizzled ? all : (all + 127) / 128 * 128 + 64;
    }
};

/// A raw box, in NCDHW: rows of a slice as TMA brings them, all channels of a row one behind the other. Eight
/// neighbouring voxels of eight channels are a matrix that ldmatrix transposes. A row is an odd number of times as long
/// as eight voxels, so that the eight channels are in different banks.
struct OuterRaw {
    int channels;
    int h, w; ///< voxels

    constexpr int bytes() const { return channels * h * w * OuterPlane::kElementBytes; }
};

/// Threads of a CTA by role, and the registers of a thread: together not more than the 168 that all begin with.
struct OuterThreads {
    static constexpr int kConsumers = 256, kProducers = 128;
    static constexpr int kConsumerRegisters = 232, kProducerRegisters = 40;
};

/// Rows of the products of a CTA: channels of one of the tensors.
constexpr int kOuterRows = 64;

struct OuterArguments {
    void* sums;               ///< grad_weight, or the sums of all splits in fp32
    int64_t depth;            ///< slices of src
    int64_t boxes_h, boxes_w; ///< of a slice
    int64_t boxes;            ///< of all slices of all images
    int64_t splits;
};

} // namespace tconv3d::cuda
