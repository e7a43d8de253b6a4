#pragma once

// What follows from the constants of the prelude (cuda/source/constants.cpp), and the layout of shared memory.
#include "reduction/tap_blocks.cuh"
#include "shared/sweep.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int kElementBytes = sizeof(Storage);
constexpr int kConsumers = SweepThreads::kConsumers / 128; // warpgroups
constexpr int kProducers = SweepThreads::kProducers;       // threads
constexpr int kThreads = SweepThreads::kConsumers + kProducers;

// Registers of a producer for what it loads before its first store. More than 96 hide no more latency.
constexpr int kAddressRegisters = kChannelsLast ? 32 : 20;
constexpr int kLoadedRegisters =
    kProducerRegisters - kAddressRegisters < 96 ? kProducerRegisters - kAddressRegisters : 96;

constexpr SweepPlane kPlane = {kTileH,      kRowCells,   kMovedStrideH, kMovedStrideW, kDilationH,  kDilationW,
                               kBlockTapsH, kBlockTapsW, kElementBytes, kMovedChunks,  kFixedChunks};
constexpr SweepDepth kDepth = {kMovedStrideD, kDilationD, kBlockTapsD};
constexpr int kSlots = kDepth.slots(kStages);
constexpr int kCellVoxels = kPlane.cell_voxels();

constexpr int kFixedChannels = kMovesSrc ? kDstChannels : kSrcChannels; // of a group
constexpr int kMovedChannels = kMovesSrc ? kSrcChannels : kDstChannels;

// The rows of a CTA's products: the channels of its tile of the moved tensor, for each tap of its block.
constexpr int kBlockTaps = kBlockTapsD * kBlockTapsH * kBlockTapsW;
constexpr int kRows = kBlockTaps * kTileMovedChannels;

// The CTAs of a split divide the channels into tiles, and the taps into blocks.
constexpr int kFixedTiles = (kFixedChannels + kTileFixedChannels - 1) / kTileFixedChannels;
constexpr int kMovedTiles = (kMovedChannels + kTileMovedChannels - 1) / kTileMovedChannels;

constexpr int kBarrierBytes = SweepPlane::kBarrierBytes;
constexpr int kCellPitch = kPlane.cell_pitch(kTileFixedChannels); // bytes from a cell of all channels to the next
constexpr int kFixedBytes = kPlane.fixed_bytes(kTileFixedChannels);
constexpr int kSlotBytes = kPlane.slot_bytes(kTileMovedChannels);

// Whether slices of the fixed tensor, and of any tensor, are copied by cp.async; what needs to be rounded, or moved
// within a word, passes through registers instead.
constexpr bool kFixedCopied = kFixedChunks || (kFixedAligned && kElementBytes == 2);
constexpr bool kHasCopies = kMovedChunks || kFixedCopied || kCopiesWords;

/// Shared memory: kStages pairs of barriers, kStages slices of the fixed tensor, kSlots slices of the moved one.
///
///     0                kBarrierBytes
///     full, empty, …   fixed(0)  fixed(1)  …   moved(0)  moved(1)  moved(2)  …
struct Pipeline {
    uint32_t shared;

    __device__ __forceinline__ uint32_t full(int stage) const { return shared + stage * 16; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return shared + stage * 16 + 8; }
    __device__ __forceinline__ uint32_t fixed(int stage) const { return shared + kBarrierBytes + stage * kFixedBytes; }
    __device__ __forceinline__ uint32_t moved(int slot) const {
        return shared + kBarrierBytes + kStages * kFixedBytes + slot * kSlotBytes;
    }
};

} // namespace
