#pragma once

// The two tensors in global memory, as producers read them.
#include "sweep/access.cuh"
#include "sweep/walk.cuh"

namespace {

/// One of the tensors, with kAllChannels channels in all groups. The bytes from a row to the next, and in NCDHW from a
/// channel to the next, fit into 32 bits: the host takes no other tensors.
template <int kAllChannels>
struct Tensor {
    const Element *begin, *end;
    int64_t d;
    int h, w; // extents

    __device__ __forceinline__ Tensor(const void* tensor, const VoxelExtents& extents, int64_t images)
        : begin(static_cast<const Element*>(tensor)),
          end(begin + images * kAllChannels * extents.d * extents.h * extents.w), d(extents.d),
          h(static_cast<int>(extents.h)), w(static_cast<int>(extents.w)) {}

    static constexpr int kVoxelStep = kChannelsLast ? kAllChannels : 1; // elements from a voxel to the next
    __device__ __forceinline__ int64_t channel_step() const { return kChannelsLast ? 1 : d * h * w; }
    __device__ __forceinline__ uint32_t channel_bytes() const {
        return static_cast<uint32_t>(channel_step()) * kElementBytes;
    }
    __device__ __forceinline__ uint32_t row_bytes() const {
        return static_cast<uint32_t>(w) * (kVoxelStep * kElementBytes);
    }
};

/// A slice of an image of a tensor, from the first channel of a CTA's tile of channels on. It may lie outside of the
/// tensor. kExactTiles says whether all tiles of channels are full.
template <int kAllChannels, bool kExactTiles>
struct Slice {
    using Of = Tensor<kAllChannels>;
    static constexpr int kVoxelStep = Of::kVoxelStep;
    static constexpr bool kExact = kExactTiles;

    const Of& tensor;
    const Element* first; // of the tile's first channel, at voxel (0, 0) of the slice
    int channels;         // of the group from that one on
    bool exists;

    __device__ __forceinline__ Slice(const Of& of, int64_t image, int64_t channel, int channels, int at)
        : tensor(of), channels(channels), exists(at >= 0 && at < of.d) {
        const int64_t area = int64_t{of.h} * of.w;
        const int64_t channel_element = image * kAllChannels * of.d * area + channel * of.channel_step();
        first = of.begin + channel_element + at * area * kVoxelStep;
    }

    __device__ __forceinline__ bool has_row(int row) const {
        return exists && static_cast<unsigned>(row) < static_cast<unsigned>(tensor.h);
    }
    __device__ __forceinline__ const Element* voxel(int row, int column) const {
        return first + (int64_t{row} * tensor.w + column) * kVoxelStep;
    }
    /// Whether all channels from the first one on have, inside of the tensor, `count` elements behind `from` of the
    /// first channel and those before it that belong to the same 16 bytes.
    __device__ __forceinline__ bool has_around(const Element* from, int count) const {
        return from - tensor.begin >= 16 / kElementBytes - 1 &&
               from + (channels - 1) * tensor.channel_step() + count <= tensor.end;
    }
};

using FixedTensor = Tensor<kGroups * kFixedChannels>;
using MovedTensor = Tensor<kGroups * kMovedChannels>;
using FixedSlice = Slice<kGroups * kFixedChannels, kFixedChannels % kTileFixedChannels == 0>;
using MovedSlice = Slice<kGroups * kMovedChannels, kMovedChannels % kTileMovedChannels == 0>;

/// Chunks that hold so many channels.
constexpr int chunks(int channels) {
    return (channels + kPlane.chunk_channels() - 1) / kPlane.chunk_channels();
}

/// Bit i: whether column first + i · step of a row of `extent` voxels exists.
template <int kCount>
__device__ __forceinline__ uint32_t valid_columns(int first, int step, int extent) {
    uint32_t mask = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
        mask |= static_cast<uint32_t>(static_cast<unsigned>(first + i * step) < static_cast<unsigned>(extent)) << i;
    return mask;
}

/// Moves a strip of pieces of rows, by whole words where all channels have these.
template <int kPhases, int kCopies, int kBegin, typename Of, typename SliceOf>
__device__ __forceinline__ void move_pieces(const SliceOf& src, const Strip& strip, int first) {
    using Whole = RowPiece<kPhases, kCopies, kBegin, true>;
    if (src.has_around(strip.from, 2 * Whole::kLoaded)) {
        move_strip<Whole, Of>(strip, first);
    } else {
        move_strip<RowPiece<kPhases, kCopies, kBegin, false>, Of>(strip, first);
    }
}

} // namespace
