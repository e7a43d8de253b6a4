#pragma once

// What a CTA owns, the order of its tiles, and where the boxes of a tile lie in their tensors.
#include "reduction/constants.cuh"

namespace {

/// The work of a CTA: tiles of channels of a group, a block of taps, and the tiles of a split. Channels and taps are
/// named by the first one.
struct Item {
    int group, src_first, dst_first;
    int tap_d, tap_h, tap_w;
    int64_t split, first_tile, end_tile;

    __device__ __forceinline__ explicit Item(const ReductionArguments& args) {
        CtaNumber number = {blockIdx.x};
        dst_first = number.next(kDstTiles) * kTileDstChannels;
        src_first = number.next(kSrcTiles) * kTileSrcChannels;
        next_taps(number, tap_d, tap_h, tap_w);
        group = number.next(kGroups);
        split = number.rest;
        first_tile = args.all_tiles * split / args.splits;
        end_tile = args.all_tiles * (split + 1) / args.splits;
    }
};

/// A box of voxels in its tensor, with the channels of the CTA. Its first voxel may lie outside of the tensor.
template <typename Tensor>
struct TensorBox {
    static constexpr int kAllChannels = kGroups * Tensor::kChannels;

    const unsigned char* tensor;
    int64_t tensor_bytes;
    int64_t first; // the element at voxel 0 of the tile's first channel in this image
    int channels;  // of the tile that exist
    int d, h, w;   // the box's first voxel
    int extent_d, extent_h, extent_w;

    __device__ __forceinline__ TensorBox(const void* data, int64_t batch, const VoxelExtents& extents, int group,
                                         int first_channel)
        : tensor(static_cast<const unsigned char*>(data)), tensor_bytes(0),
          first(group * Tensor::kChannels + first_channel),
          channels(min(Tensor::kChannels - first_channel, Tensor::kStaged.channels)), d(0), h(0), w(0),
          extent_d(static_cast<int>(extents.d)), extent_h(static_cast<int>(extents.h)),
          extent_w(static_cast<int>(extents.w)) {
        tensor_bytes = batch * kAllChannels * volume() * kElementBytes;
        if (!kChannelsLast) first *= volume();
    }

    __device__ __forceinline__ int64_t volume() const { return int64_t{extent_d} * extent_h * extent_w; }
    __device__ __forceinline__ void go_to_image(int64_t image) { first += image * volume() * kAllChannels; }

    // Rows and voxels are named by their place in the box, at_d, at_h and at_w.
    /// The number of a row, and of a voxel, of the box among all of the tensor's image.
    __device__ __forceinline__ int64_t row(int at_d, int at_h) const {
        return int64_t{d + at_d} * extent_h + (h + at_h);
    }
    __device__ __forceinline__ int64_t voxel(int at_d, int at_h, int at_w) const {
        return row(at_d, at_h) * extent_w + (w + at_w);
    }
    // In channels_last_3d: elements of a row of the tensor, and the element at a column of the box in row 0 of it.
    __device__ __forceinline__ int64_t row_elements() const { return int64_t{extent_w} * kAllChannels; }
    __device__ __forceinline__ int64_t column_element(int at_w) const {
        return first + int64_t{w + at_w} * kAllChannels;
    }
    __device__ __forceinline__ bool has_row(int at_d, int at_h) const {
        return static_cast<unsigned>(d + at_d) < static_cast<unsigned>(extent_d) &&
               static_cast<unsigned>(h + at_h) < static_cast<unsigned>(extent_h);
    }
    __device__ __forceinline__ bool has_column(int at_w) const {
        return static_cast<unsigned>(w + at_w) < static_cast<unsigned>(extent_w);
    }
};

/// The tile that a CTA has come to. It is counted on, because a division of 64 bits takes a hundred instructions.
struct Walk {
    int64_t image;
    int d, h, w; // in tiles

    __device__ __forceinline__ Walk(const VoxelExtents& tiles, int64_t index) {
        w = static_cast<int>(index % tiles.w);
        index /= tiles.w;
        h = static_cast<int>(index % tiles.h);
        index /= tiles.h;
        d = static_cast<int>(index % tiles.d);
        image = index / tiles.d;
    }

    __device__ __forceinline__ void advance(const VoxelExtents& tiles) {
        if (++w < tiles.w) return;
        w = 0;
        if (++h < tiles.h) return;
        h = 0;
        if (++d < tiles.d) return;
        d = 0;
        ++image;
    }
};

/// A tile: a box of src, and the box of grad_dst that it meets through the block of taps.
struct Tile {
    TensorBox<Src> src;
    TensorBox<Dst> dst;

    __device__ __forceinline__ Tile(const ReductionArguments& args, const Item& item, const Walk& walk)
        : src(args.src, args.batch, args.src_extents, item.group, item.src_first),
          dst(args.grad_dst, args.batch, args.dst_extents, item.group, item.dst_first) {
        src.go_to_image(walk.image);
        dst.go_to_image(walk.image);
        src.d = walk.d * kBoxD;
        src.h = walk.h * kBoxH;
        src.w = walk.w * kBoxW;
        dst.d = src.d * kStrideD - kPaddingD + item.tap_d * kDilationD;
        dst.h = src.h * kStrideH - kPaddingH + item.tap_h * kDilationH;
        dst.w = src.w * kStrideW - kPaddingW + item.tap_w * kDilationW;
    }
};

} // namespace
