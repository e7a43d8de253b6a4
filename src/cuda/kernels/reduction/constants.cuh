#pragma once

// What follows from the constants of the prelude (cuda/source/constants.cpp).
#include "base/storage.cuh"
#include "shared/reduction.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int kElementBytes = sizeof(Storage);
constexpr int kPieceElements = 16 / kElementBytes; // of the 16 bytes that are copied or stored at once
constexpr int kStepVoxels = 32 / kElementBytes;    // the depth of one mma.sync

constexpr int kBoxVoxels = kBoxD * kBoxH * kBoxW;
constexpr int kBoxSteps = (kBoxVoxels + kStepVoxels - 1) / kStepVoxels;

constexpr int kMetD = met_extent(kBoxD, kStrideD, kBlockTapsD, kDilationD);
constexpr int kMetH = met_extent(kBoxH, kStrideH, kBlockTapsH, kDilationH);
constexpr int kMetW = met_extent(kBoxW, kStrideW, kBlockTapsW, kDilationW);

/// What both tensors have: the channels of a group, and how a tile is staged.
template <int kGroupChannels>
struct Operand {
    static constexpr int kChannels = kGroupChannels, kAllChannels = kGroups * kGroupChannels;
};

struct Src : Operand<kSrcChannels> {
    static constexpr StagedTensor kStaged = {
        {kBoxD, kBoxH, kBoxW, 1},      kTileSrcChannels, kBoxSteps * kStepVoxels - kBoxVoxels, kElementBytes,
        kChannelsLast, kParts};
};

struct Dst : Operand<kDstChannels> {
    // Where a box has one column, its stride says nothing.
    static constexpr StagedTensor kStaged = {
        {kMetD, kMetH, kMetW, kStrideW < kMetW ? kStrideW : kMetW}, kTileDstChannels, 0, kElementBytes, kChannelsLast,
        kParts};
};

/// Whether every run begins at a multiple of 16 bytes.
template <typename Tensor>
constexpr bool kRunsAligned = kChannelsLast && Tensor::kChannels % kPieceElements == 0 &&
                              Tensor::kStaged.channels % kPieceElements == 0;

// Shared memory, in this order.
constexpr int kTableBytes = kBoxSteps * kStepVoxels * 4;
constexpr int kSrcAt = kTableBytes;
constexpr int kDstAt = kSrcAt + Src::kStaged.bytes();
constexpr int kRawSrcAt = kDstAt + Dst::kStaged.bytes();
constexpr int kRawDstAt = kRawSrcAt + Src::kStaged.raw_bytes();

// The products of a CTA: rows are channels of src; a column is 8 channels of grad_dst at one tap. Some warps divide the
// rows, the others the columns.
constexpr int kBlockTaps = kBlockTapsD * kBlockTapsH * kBlockTapsW;
constexpr int kColumnTiles = kTileDstChannels / 8;
constexpr int kAllColumns = kBlockTaps * kColumnTiles;
constexpr int kColumnWarps = kThreads / 32 / kRowWarps;
constexpr int kWarpColumns = (kAllColumns + kColumnWarps - 1) / kColumnWarps;
constexpr int kWarpRows = kTileSrcChannels / 16 / kRowWarps; // in m16 tiles

// The work of the grid.
constexpr int kTapBlocksD = (kKernelD + kBlockTapsD - 1) / kBlockTapsD;
constexpr int kTapBlocksH = (kKernelH + kBlockTapsH - 1) / kBlockTapsH;
constexpr int kTapBlocksW = (kKernelW + kBlockTapsW - 1) / kBlockTapsW;
constexpr int kSrcTiles = (kSrcChannels + kTileSrcChannels - 1) / kTileSrcChannels;
constexpr int kDstTiles = (kDstChannels + kTileDstChannels - 1) / kTileDstChannels;

} // namespace
