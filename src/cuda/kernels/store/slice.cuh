#pragma once

// Where the outputs of a work item belong: slices, channels, images.
#include "finish/finish.cuh"
#include "schedule/items.cuh"

namespace {

constexpr int kAllOutChannels = kGroups * kOutChannels;
constexpr int kElementBytes = sizeof(Storage);
using Index = Select<kSmallOut, int, int64_t>; // counts all outputs

/// Outputs from an image of a tile to its next one; where a tile has slices of one image instead, from the first output
/// slice of a slice to that of the next one.
__device__ __forceinline__ int64_t image_stride(const TensorCoreArguments& args) {
    if constexpr (kSlices > 1) return kStrideD * args.out_slice;
    return kAllOutChannels * args.out_extents.d * args.out_slice;
}

/// The output slice that is stored, in the channels of the work item.
struct StoredSlice {
    Index index;  // of its first output in its first channel
    Index stride; // to the next channel
    int channel;  // the first one
    int count;    // how many of the channels exist

    __device__ __forceinline__ bool has(int c) const {
        return kOutChannels % kTileChannels == 0 ? count > 0 : c < count;
    }
};

/// The output slice `d` of a work item. It has no channels, so that nothing is stored, unless `keep`.
__device__ __forceinline__ StoredSlice stored_slice(const TensorCoreArguments& args, const Item& item, int d,
                                                    bool keep) {
    const int first = item.channel_tile * kTileChannels;
    StoredSlice slice;
    slice.channel = item.group * kOutChannels + first;
    // A branch around all stores would make the compiler keep the accumulators twice.
    slice.count = keep ? min(kOutChannels - first, kTileChannels) : 0;
    if constexpr (kChannelsLast) {
        slice.stride = 1;
        slice.index = (static_cast<Index>(item.n) * args.out_extents.d + d) * static_cast<Index>(args.out_slice) *
                          kAllOutChannels +
                      slice.channel;
    } else {
        slice.stride = static_cast<Index>(args.out_extents.d * args.out_slice);
        slice.index = (static_cast<Index>(item.n) * kAllOutChannels + slice.channel) * slice.stride +
                      d * static_cast<Index>(args.out_slice);
    }
    return slice;
}

/// The outputs of a tile with whole rows in a channel, which are contiguous, by address. They are no fewer than 32
/// bytes.
struct RowRange {
    uint64_t begin, end;
    /// How far the range begins behind a multiple of 16 bytes. It is staged as far behind one in shared memory.
    __device__ __forceinline__ uint32_t shift() const { return static_cast<uint32_t>(begin % 16); }
    /// The part of the range that TMA copies: what lies before and behind it is less than 16 bytes each.
    __device__ __forceinline__ uint64_t aligned_begin() const { return (begin + 15) / 16 * 16; }
    __device__ __forceinline__ uint64_t aligned_end() const { return end / 16 * 16; }
};

/// Outputs of a slice before the tile's first row.
__device__ __forceinline__ int tile_start(const TensorCoreArguments& args, const Item& item) {
    return item.q_h * kStrideH * args.out_extents.w;
}

__device__ __forceinline__ RowRange row_range(const TensorCoreArguments& args, const Storage* tensor, const Item& item,
                                              const StoredSlice& slice, int c) {
    const int rows = min(kTileH * kStrideH, args.out_extents.h - item.q_h * kStrideH);
    const Storage* begin = tensor + (slice.index + c * slice.stride + tile_start(args, item));
    return {reinterpret_cast<uint64_t>(begin), reinterpret_cast<uint64_t>(begin + rows * args.out_extents.w)};
}

} // namespace
