#pragma once

// What follows from the constants of the prelude (cuda/source/constants.cpp), and the layout of shared memory.
#include "reduction/grad_weight.cuh"
#include "shared/outer.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int kThreads = OuterThreads::kConsumers + OuterThreads::kProducers;
constexpr int kWarpgroups = OuterThreads::kConsumers / 128; // of consumers

// The rows of products are channels of one tensor, the columns channels of the other one.
constexpr int kRowChannels = kRowsAreDst ? kDstChannels : kSrcChannels; // of a group
constexpr int kColumnChannels = kRowsAreDst ? kSrcChannels : kDstChannels;
constexpr int kRowTiles = kRowChannels / kOuterRows, kColumnTiles = kColumnChannels / kTileColumns;
static_assert(kRowChannels % kOuterRows == 0 && kColumnChannels % kTileColumns == 0, "tiles divide the channels");

constexpr OuterPlane kSrc = {kRowsAreDst ? kTileColumns : kOuterRows, kBoxH, kBoxW, kChannelsLast};
constexpr OuterPlane kDst = {kRowsAreDst ? kOuterRows : kTileColumns, kMetH, kMetW, kChannelsLast};
constexpr int kStageBytes = kSrc.bytes() + kMostPlanes * kDst.bytes();

constexpr int kBarrierBytes = OuterPlane::kSwizzlePeriod;

/// Shared memory: the barriers, kRawStages raw boxes where NCDHW has any, then kStages stages, each with a plane of src
/// and up to kMostPlanes of grad_dst.
struct Pipeline {
    uint32_t shared;

    __device__ __forceinline__ uint32_t full(int stage) const { return shared + stage * 16; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return shared + stage * 16 + 8; }
    __device__ __forceinline__ uint32_t raw_full(int raw) const { return shared + kBarrierBytes / 2 + raw * 8; }
    __device__ __forceinline__ uint32_t raw(int raw) const { return shared + kBarrierBytes + raw * kRawBytes; }
    __device__ __forceinline__ uint32_t src(int stage) const { return raw(kRawStages) + stage * kStageBytes; }
    __device__ __forceinline__ uint32_t dst(int stage) const { return src(stage) + kSrc.bytes(); }
};

/// The number of one of kCount stages that take turns, and the parity of the phase in which it is used.
template <int kCount>
struct StageCount {
    int stage = 0, parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage < kCount) return;
        stage = 0;
        parity ^= 1;
    }
};

/// The work of a CTA: channels of a group, named by the first one, a block of taps, and the boxes of a split.
struct Item {
    int group, row_first, column_first, block;
    int64_t split, first_box;
    int boxes;

    __device__ __forceinline__ explicit Item(const OuterArguments& args) {
        CtaNumber number = {blockIdx.x};
        block = number.next(kTapBlocks);
        column_first = number.next(kColumnTiles) * kTileColumns;
        row_first = number.next(kRowTiles) * kOuterRows;
        group = number.next(kGroups);
        split = number.rest;
        first_box = args.boxes * split / args.splits;
        boxes = static_cast<int>(args.boxes * (split + 1) / args.splits - first_box);
    }
    /// The first channel of each tensor, counted through all groups.
    __device__ __forceinline__ int src_channel() const {
        return group * kSrcChannels + (kRowsAreDst ? column_first : row_first);
    }
    __device__ __forceinline__ int dst_channel() const {
        return group * kDstChannels + (kRowsAreDst ? row_first : column_first);
    }
};

/// The box that a CTA has come to: an image, a slice, and the first row and column of the box.
struct BoxPlace {
    int image, d, h, w;

    __device__ __forceinline__ BoxPlace(const OuterArguments& args, const Item& item) {
        int64_t box = item.first_box;
        w = static_cast<int>(box % args.boxes_w) * kBoxW;
        box /= args.boxes_w;
        h = static_cast<int>(box % args.boxes_h) * kBoxH;
        box /= args.boxes_h;
        d = static_cast<int>(box % args.depth);
        image = static_cast<int>(box / args.depth);
    }
    __device__ __forceinline__ void advance(const OuterArguments& args) {
        w += kBoxW;
        if (w < args.boxes_w * kBoxW) return;
        w = 0;
        h += kBoxH;
        if (h < args.boxes_h * kBoxH) return;
        h = 0;
        if (++d < args.depth) return;
        d = 0;
        ++image;
    }
};

} // namespace
