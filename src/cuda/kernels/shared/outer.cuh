#pragma once

// The family `outer`: what its kernel is launched with, and where voxels lie in its shared memory. Host and device
// compile this file.
#include "shared/voxel_extents.cuh"

namespace tconv3d::cuda {

/// A staged plane: voxels of one slice of src or grad_dst, row by row, with the channels of a CTA. TMA writes it and
/// wgmma reads it, both by swizzled rows of at most 128 bytes. So the channels are divided into *atoms*, which lie one
/// behind the other. A row is a voxel with the channels of an atom:
///
///     atom 0    v0 c0–63 | v1 c0–63 | v2 c0–63 | …       Eight neighbouring voxels are a core matrix whose channels
///     are atom 1    v0 c64–127 | v1 c64–127 | …              contiguous: wgmma transposes. A tap is a number of
///     voxels.
struct OuterPlane {
    int channels; ///< of a CTA, a multiple of 16
    int h, w;     ///< voxels

    static constexpr int kElementBytes = 2;
    static constexpr int kSwizzlePeriod = 1024; ///< The swizzle goes by addresses, and repeats after so many bytes.

    constexpr int atom_channels() const { return channels % 64 == 0 ? 64 : channels % 32 == 0 ? 32 : 16; }
    constexpr int atoms() const { return channels / atom_channels(); }
    constexpr int voxel_bytes() const { return atom_channels() * kElementBytes; }
    constexpr int copied_bytes() const { return h * w * channels * kElementBytes; }
    constexpr int atom_bytes() const {
        return (h * w * voxel_bytes() + kSwizzlePeriod - 1) / kSwizzlePeriod * kSwizzlePeriod;
    }
    constexpr int bytes() const { return atoms() * atom_bytes(); }
};

/// Threads of a CTA by role, and the registers of a thread: together not more than the 168 that all begin with.
struct OuterThreads {
    static constexpr int kConsumers = 256, kProducers = 128;
    static constexpr int kConsumerRegisters = 240, kProducerRegisters = 24;
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
