#pragma once

// Where the outputs of a work item belong: slices, channels, images.
#include "finish/output.cuh"
#include "schedule/shape.cuh"

namespace {

constexpr int kChannels = kGroups * kCo; // of dst
constexpr int kElementBytes = sizeof(Storage);
using Index = typename IndexOf<kSmallDst>::Type; // counts all outputs

/// Outputs from a tile's image to the next, or from what a slice gives to what the next one does.
__device__ __forceinline__ int64_t image_stride(const StreamArgs& args) {
    if constexpr (kSlices > 1) return kStrideD * args.dst_slice;
    return kChannels * args.dst_d * args.dst_slice;
}

/// The slice that is stored, and the channels of the work item.
struct Slice {
    Index index;  // of its first output in its first channel
    Index stride; // to the next channel
    int channel;  // the first one
    int count;    // of them that exist

    __device__ __forceinline__ bool has(int c) const { return kCo % kCoTile == 0 ? count > 0 : c < count; }
};

__device__ __forceinline__ Slice slice_of(const StreamArgs& args, const Item& item, int d, bool keep) {
    const int first = item.co_tile * kCoTile;
    Slice slice;
    slice.channel = item.group * kCo + first;
    // A branch around all stores would make the compiler keep the sums twice.
    slice.count = keep ? min(kCo - first, kCoTile) : 0;
    if constexpr (kChannelsLast) {
        slice.stride = 1;
        slice.index = (static_cast<Index>(item.n) * args.dst_d + d) * static_cast<Index>(args.dst_slice) * kChannels +
                      slice.channel;
    } else {
        slice.stride = static_cast<Index>(args.dst_d * args.dst_slice);
        slice.index = (static_cast<Index>(item.n) * kChannels + slice.channel) * slice.stride +
                      d * static_cast<Index>(args.dst_slice);
    }
    return slice;
}

/// The contiguous outputs of a tile in a channel, by address in dst. They are no fewer than 32 bytes.
struct Piece {
    uint64_t begin, end;
    /// Bytes from a multiple of 16, which is as far as it lies from one in shared memory.
    __device__ __forceinline__ uint32_t shift() const { return static_cast<uint32_t>(begin % 16); }
    /// Between these they are aligned for the widest copies.
    __device__ __forceinline__ uint64_t aligned_begin() const { return (begin + 15) / 16 * 16; }
    __device__ __forceinline__ uint64_t aligned_end() const { return end / 16 * 16; }
};

__device__ __forceinline__ int tile_start(const StreamArgs& args, const Item& item) {
    return item.q_h * kStrideH * args.dst_w;
}

__device__ __forceinline__ Piece piece_of(const StreamArgs& args, const Storage* tensor, const Item& item,
                                          const Slice& slice, int c) {
    const int rows = min(kTileH * kStrideH, args.dst_h - item.q_h * kStrideH);
    const Storage* begin = tensor + (slice.index + c * slice.stride + tile_start(args, item));
    return {reinterpret_cast<uint64_t>(begin), reinterpret_cast<uint64_t>(begin + rows * args.dst_w)};
}

/// The value of one of this lane's own outputs, which may not exist.
__device__ __forceinline__ float lane_value(float value, const Output& output, bool exists, int channel, Index index) {
    if constexpr (kOperands == 0) return epilogue(value, output.operands, channel, 0);
    return exists ? epilogue(value, output.operands, channel, index) : 0.f;
}

} // namespace
