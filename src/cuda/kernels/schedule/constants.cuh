#pragma once

// Constants that follow from those of the host (cuda/source/constants.cpp lists these with their meaning).
//
// A staged plane is a row of positions, one for each voxel of the tile and its halo: image after image, row after row.
// Here a tile of 2 x 4 voxels a to h with a halo of one voxel around it, so that kPitch is 6:
//
//     positions 0 to 5       . . . . . .      A tap (h, w) reads h · kPitch + w positions further on than the first
//     tap, positions 6 to 11      . a b c d .      whichever voxel it is. positions 12 to 17     . e f g h . positions
//     18 to 23     . . . . . .
//
// A position holds 16 bytes of channels. kPlaneBytes behind it is the position of the same voxel for the next channels,
// up to the last ones of a k step and of a stage. So 8 neighbouring positions are one core matrix of a K-major operand.
// Where TMA writes the stages, a position holds all channels of a stage instead, as a swizzled K-major operand.
//
// A stage has a staged plane for each input plane of H and W that taps read, one behind the other (kInPlanePitch): all
// of them are one operand.
#include "base/ptx.cuh"
#include "base/storage.cuh"

namespace {

constexpr int kWordChannels = kChannelStep / 8; // channels in 32 bits
constexpr int kAllTaps = kKernelD * kKernelH * kKernelW;
constexpr int kChunks = (kInChannels + kSteps * kChannelStep - 1) / (kSteps * kChannelStep); // stages of a slice

// ---- Roles ----

constexpr bool kHasStorer = kGathered && kStore == Store::bulk_rows; // a warpgroup that only stores
constexpr bool kHasRearrangers = kRearrangingWarps > 2;              // one that only rearranges
// Beside the consumers there are the producer warpgroup and maybe one of these.
constexpr int kThreads = (kConsumers + (kHasStorer || kHasRearrangers ? 2 : 1)) * 128;
// Lanes of a warp that arrive at a barrier. One speaks for all where TMA or wgmma is on the other side.
constexpr int kArrivals = kWgmma ? 1 : 32;

// ---- Input ----

constexpr bool kSwizzled = kSource == Source::swizzled;
constexpr bool kRearranged = !kSwizzled; // by warps
constexpr bool kWholeRows = kSource == Source::whole_rows || kSource == Source::whole_planes;
constexpr bool kHasPlanes = kSource == Source::rows || kWholeRows;
constexpr bool kRanges = kSource == Source::ranges;
constexpr bool kHasRaw = kHasPlanes || kRanges || kSource == Source::core_matrices; // what TMA brings is rearranged
constexpr int kStageChannels = kSteps * kChannelStep;
constexpr int kPlaneBytes = kPositions * 16;
constexpr int kPartBytes = 2 * kSteps * kPlaneBytes;
constexpr int kStageBytes = kParts * kPartBytes;
constexpr int kPositionBytes = kSwizzled ? kSteps * 32 : 16; // from a position to the next
constexpr int kStepBytes = kSwizzled ? 32 : 2 * kPlaneBytes; // from a k step to the next
constexpr bool kInterleaved = kImagePitch < kRowPitch;       // row 0 of all images, then row 1 of all images, …

/// The entries that a table has.
template <int Count>
__host__ __device__ constexpr int count_of(const int (&)[Count]) {
    return Count;
}
constexpr int kInPlanesD = count_of(kInPlaneD), kInPlanesW = count_of(kInPlaneW);
constexpr int kStagedPlanes = count_of(kInPlaneH) * kInPlanesW; // of a stage

// ---- Input that warps rearrange element by element (load/elements.cuh) ----

constexpr bool kDeinterleaves = kInStrideH * kInStrideW > 1;
constexpr int kRawColumns = (kPitch - 1) * kInStrideW + kInPlaneW[kInPlanesW - 1] + 1; // of a row that is cut
constexpr bool kRearrangesElements = kRanges || (kHasPlanes && kDeinterleaves && kWordChannels == 1);

/// A row of a core matrix: 16 bytes of channels, of a position or of a row of weights.
struct alignas(16) CoreRow {
    uint32_t words[4];
};

/// Stores the tf32 parts of a row of fp32.
__device__ __forceinline__ void store_parts(uint32_t to, int part_bytes, const CoreRow& row) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
        CoreRow values;
#pragma unroll
        for (int i = 0; i < 4; ++i) values.words[i] = tf32_part(__uint_as_float(row.words[i]), part);
        ptx::store_shared(to + part * part_bytes, values.words);
    }
}

// ---- Weights ----
//
// A stage holds the weights of one tap group, in blocks of kBlockBytes: by k step, then by part, then by tap. A block
// has two core matrices, which are next to one another along k, for each eight rows; a row is a slot and an output
// channel. Where copies rotate the weights, the order is by eight rows first, and then by k step, part and tap, so that
// the rows of some slots are contiguous.

constexpr bool kOwnWeights = kPacking == Packing::by_cta;
constexpr bool kRotatesCopies = kPacking == Packing::one_rotation;
constexpr int kBlockBytes = kWeightRows * 32; // of one tap of the plane, one part and one k step
constexpr int kEightRowsBytes = 256;
constexpr int kTapBytes = kRotatesCopies ? kEightRowsBytes : kBlockBytes; // from a tap to the next

__host__ __device__ constexpr int group_taps(int group) {
    return kGroupTap[group + 1] - kGroupTap[group];
}
__host__ __device__ constexpr int group_bytes(int group) {
    return kSteps * kParts * group_taps(group) * kBlockBytes;
}

/// Bytes from the weights of a k step of a group to the next.
__host__ __device__ constexpr int weight_step_bytes(int group) {
    return kParts * group_taps(group) * kTapBytes;
}

/// Bytes from eight rows of a tap to the next eight.
__host__ __device__ constexpr int eight_rows_stride(int group) {
    return kRotatesCopies ? kSteps * kParts * group_taps(group) * kEightRowsBytes : kEightRowsBytes;
}

} // namespace
