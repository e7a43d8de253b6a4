#pragma once

// What follows from the constants of the prelude (cuda/source/constants.cpp).
#include "reduction/grad_weight.cuh"
#include "shared/sweep.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int kElementBytes = sizeof(Storage);
constexpr int kConsumers = SweepThreads::kConsumers / 128; // warpgroups
constexpr int kProducers = SweepThreads::kProducers;
constexpr int kThreads = SweepThreads::kConsumers + kProducers;

// Registers of a producer for what it loads before its first store. More than 96 hide no more.
constexpr int kAddressRegisters = kChannelsLast ? 32 : 20;
constexpr int kLoadedRegisters =
    kProducerRegisters - kAddressRegisters < 96 ? kProducerRegisters - kAddressRegisters : 96;

constexpr SweepPlane kPlane = {kTileH,      kRowCells,   kMovedStrideH, kMovedStrideW, kDilationH,  kDilationW,
                               kBlockTapsH, kBlockTapsW, kElementBytes, kMovedChunks,  kFixedChunks};
constexpr SweepDepth kDepth = {kMovedStrideD, kDilationD, kBlockTapsD};
constexpr int kSlots = kDepth.slots(kStages);

constexpr int kFixedChannels = kMovesSrc ? kDstChannels : kSrcChannels; // of a group
constexpr int kMovedChannels = kMovesSrc ? kSrcChannels : kDstChannels;

// Products: rows are a tap and a channel of the moved tensor, columns channels of the fixed one.
constexpr int kBlockTaps = kBlockTapsD * kBlockTapsH * kBlockTapsW;
constexpr int kRows = kBlockTaps * kTileMovedChannels;

// Shared memory, in bytes: barriers, stages of the fixed tensor, slots of slices of the moved one. The cells
// of eight neighbouring channels of the fixed tensor are a core matrix of a K-major operand, and eight voxels of a
// chunk one of an operand that has its channels side by side.
constexpr int kBarrierBytes = SweepPlane::kBarrierBytes;
constexpr int kCellPitch = kPlane.cell_pitch(kTileFixedChannels);
constexpr int kFixedBytes = kPlane.fixed_bytes(kTileFixedChannels);
constexpr int kSlotBytes = kPlane.slot_bytes(kTileMovedChannels);

// By cp.async, to where products read.
constexpr bool kFixedCopied = kFixedChunks || (kFixedAligned && kElementBytes == 2);
constexpr bool kHasCopies = kMovedChunks || kFixedCopied || kCopiesWords;

struct Pipeline {
    uint32_t shared;

    __device__ __forceinline__ uint32_t full(int stage) const { return shared + stage * 16; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return shared + stage * 16 + 8; }
    __device__ __forceinline__ uint32_t fixed(int stage) const { return shared + kBarrierBytes + stage * kFixedBytes; }
    __device__ __forceinline__ uint32_t moved(int slot) const {
        return shared + kBarrierBytes + kStages * kFixedBytes + slot * kSlotBytes;
    }
};

// The CTAs of a split divide the channels into tiles, and the taps into blocks.
constexpr int kFixedTiles = (kFixedChannels + kTileFixedChannels - 1) / kTileFixedChannels;
constexpr int kMovedTiles = (kMovedChannels + kTileMovedChannels - 1) / kTileMovedChannels;

} // namespace
