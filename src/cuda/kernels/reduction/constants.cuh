#pragma once

// What follows from the constants of the prelude (cuda/source/constants.cpp), and the layout of shared memory.
#include "reduction/tap_blocks.cuh"
#include "shared/reduction.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int kElementBytes = sizeof(Storage);
constexpr int kVectorElements = 16 / kElementBytes; // of 16 bytes, which are copied or stored at once
constexpr int kStepVoxels = 32 / kElementBytes;     // the depth of one mma.sync

constexpr int kBoxVoxels = kBoxD * kBoxH * kBoxW;
constexpr int kBoxSteps = (kBoxVoxels + kStepVoxels - 1) / kStepVoxels;

constexpr int kMetD = met_extent(kBoxD, kStrideD, kBlockTapsD, kDilationD);
constexpr int kMetH = met_extent(kBoxH, kStrideH, kBlockTapsH, kDilationH);
constexpr int kMetW = met_extent(kBoxW, kStrideW, kBlockTapsW, kDilationW);

// The two tensors: Src is the left operand, Dst, which is grad_dst, the right one.
struct Src {
    static constexpr int kChannels = kSrcChannels; // of a group
    static constexpr bool kVolumeAligned = kSrcVolumeAligned;
    static constexpr StagedBox kBox = {kBoxD, kBoxH, kBoxW, 1};
    static constexpr StagedTensor kStaged = {kBox,          kTileSrcChannels, kBoxSteps * kStepVoxels - kBoxVoxels,
                                             kElementBytes, kChannelsLast,    kSrcAligned,
                                             kParts};
};

struct Dst {
    static constexpr int kChannels = kDstChannels;
    static constexpr bool kVolumeAligned = kDstVolumeAligned;
    // Where a box has one column, its stride says nothing.
    static constexpr StagedBox kBox = {kMetD, kMetH, kMetW, kStrideW < kMetW ? kStrideW : kMetW};
    static constexpr StagedTensor kStaged = {kBox,          kTileDstChannels, 0,     kElementBytes,
                                             kChannelsLast, kDstAligned,      kParts};
};

constexpr bool kCopiesPositions = copies_positions(Src::kStaged, Dst::kStaged);

// Shared memory: the table of what meets (fill_met_table), two stages of positions, and two raw stages of runs, where
// positions are not copied as they are. Tile t of a split has the stages t mod 2.
//
//     table | src 0  grad_dst 0 | src 1  grad_dst 1 | raw src 0  raw grad_dst 0 | raw src 1  raw grad_dst 1
constexpr int kTableBytes = kBoxSteps * kStepVoxels * 4;
constexpr int kStageBytes = Src::kStaged.bytes() + Dst::kStaged.bytes();
constexpr int kRawStageBytes = kCopiesPositions ? 0 : Src::kStaged.raw_bytes() + Dst::kStaged.raw_bytes();

__device__ __forceinline__ uint32_t src_stage(uint32_t shared_begin, int64_t number) {
    return shared_begin + kTableBytes + static_cast<int>(number & 1) * kStageBytes;
}
__device__ __forceinline__ uint32_t dst_stage(uint32_t shared_begin, int64_t number) {
    return src_stage(shared_begin, number) + Src::kStaged.bytes();
}
__device__ __forceinline__ uint32_t raw_src_stage(uint32_t shared_begin, int64_t number) {
    return shared_begin + kTableBytes + 2 * kStageBytes + static_cast<int>(number & 1) * kRawStageBytes;
}
__device__ __forceinline__ uint32_t raw_dst_stage(uint32_t shared_begin, int64_t number) {
    return raw_src_stage(shared_begin, number) + Src::kStaged.raw_bytes();
}

// The products of a CTA: m16 tiles are 16 channels of src each, n8 tiles 8 channels of grad_dst at one tap each. Warps
// are a grid, of which kRowWarps divide the m16 tiles and the others the n8 tiles.
constexpr int kBlockTaps = kBlockTapsD * kBlockTapsH * kBlockTapsW;
constexpr int kTapNTiles = kTileDstChannels / 8;
constexpr int kAllNTiles = kBlockTaps * kTapNTiles;
constexpr int kColumnWarps = kThreads / 32 / kRowWarps;
constexpr int kWarpNTiles = (kAllNTiles + kColumnWarps - 1) / kColumnWarps;
constexpr int kWarpMTiles = kTileSrcChannels / 16 / kRowWarps;

// The CTAs of a split divide the channels into tiles, and the taps into blocks.
constexpr int kSrcTiles = (kSrcChannels + kTileSrcChannels - 1) / kTileSrcChannels;
constexpr int kDstTiles = (kDstChannels + kTileDstChannels - 1) / kTileDstChannels;

} // namespace
