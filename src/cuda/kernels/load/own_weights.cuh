#pragma once

// Weights that a CTA packs for itself (Packing::by_cta). Where all weights of a tile of output channels fit into shared
// memory, the consumers read them from the weight before the first product, and they stay until an item has other
// channels: no kernel has to run before this one. The blocks are those that pack_weights.cuh makes.
//
// The weight is (in, out, taps), or (in, taps, out) where its channels are last. A thread reads squares of it: 16 bytes
// of each of as many input channels as 16 bytes have elements. It transposes each square, and then has rows of core
// matrices, one for each tap or for each output channel. In fp32 a square is
//
//     input channel 0    tap 0  tap 1  tap 2  tap 3         tap 0    channel 0  1  2  3     a row of a core matrix
//     input channel 1    tap 0  tap 1  tap 2  tap 3    ►    tap 1    channel 0  1  2  3     another one
//     …                                                     …
#include "schedule/items.cuh"
#include "schedule/pipeline.cuh"

namespace {

constexpr int kSide = 4 * kWordChannels;                    // elements in 16 bytes
constexpr int kSquares = kChunks * kSteps * 2;              // along the input channels
constexpr int kTapSquares = (kAllTaps + kSide - 1) / kSide; // where weights are packed here, this divides

using Square = CoreRow[kSide];

/// Rows of input channels become rows of what lies side by side in them.
__device__ __forceinline__ void transpose(const Square& from, Square& to) {
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (kWordChannels == 2) {
                const uint32_t first = from[2 * i].words[j / 2], second = from[2 * i + 1].words[j / 2];
                to[j].words[i] = __byte_perm(first, second, j % 2 == 0 ? 0x5410 : 0x7632);
            } else {
                to[j].words[i] = from[i].words[j];
            }
        }
    }
}

/// The row of packed weights for an output channel of a tile. Where a lane stores neighbouring channels, these are its
/// columns of several blocks of 8.
__device__ __forceinline__ int row_of_channel(int channel) {
    constexpr int kTogether = 4 * kLaneChannels;
    const int lane = channel % kTogether / kLaneChannels, column = channel % kLaneChannels;
    return channel / kTogether * kTogether + column / 2 * 8 + lane * 2 + column % 2;
}

/// What a CTA packs: the tile of an item's output channels.
struct OwnTile {
    const Storage* weight; // from its first channel on
    int channels;          // that exist
    uint32_t to;

    __device__ OwnTile(const TensorCoreArguments& args, const Item& item, uint32_t shared)
        : weight(reinterpret_cast<const Storage*>(args.weights) +
                 int64_t{item.group} * kInChannels * kOutChannels * kAllTaps +
                 int64_t{item.channel_tile} * kTileChannels * (args.weight_channels_last != 0 ? 1 : kAllTaps)),
          channels(min(kTileChannels, kOutChannels - item.channel_tile * kTileChannels)), to(shared) {}

    /// The square of input channels kSide * square and those that follow, at `place` of the weight of one input
    /// channel.
    __device__ __forceinline__ void load(Square& rows, int square, int64_t place, bool exists) const {
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
            const int channel = square * kSide + i;
            const auto* from =
                reinterpret_cast<const uint4*>(weight + int64_t{channel} * kOutChannels * kAllTaps + place);
            const uint4 row = exists && channel < kInChannels ? __ldg(from) : uint4{};
            rows[i] = {{row.x, row.y, row.z, row.w}};
        }
    }

    __device__ __forceinline__ void store(const CoreRow& core_row, int square, int tap, int channel) const {
        constexpr int kPart = kPassTaps * kBlockBytes;
        const int step = square / 2, row = kTapRow[tap] + row_of_channel(channel);
        const uint32_t at = to + step / kSteps * kWeightStageBytes + step % kSteps * (kParts * kPart) + row / 8 * 256 +
                            square % 2 * 128 + row % 8 * 16;
        if constexpr (kWordChannels == 1) {
            store_parts(at, kPart, core_row);
        } else {
            ptx::store_shared(at, core_row.words);
        }
    }

    /// Packs all taps of a channel. Eight threads that are neighbours have the rows of a core matrix.
    __device__ __forceinline__ void pack_channel(int square, int channel) const {
        Square rows[kTapSquares];
#pragma unroll
        for (int tap = 0; tap < kAllTaps; tap += kSide)
            load(rows[tap / kSide], square, channel * kAllTaps + tap, channel < channels);
#pragma unroll
        for (int tap = 0; tap < kAllTaps; tap += kSide) {
            Square transposed;
            transpose(rows[tap / kSide], transposed);
#pragma unroll
            for (int j = 0; j < kSide; ++j) store(transposed[j], square, tap + j, channel);
        }
    }

    /// Packs kSide channels for one tap, where output channels are neighbours in memory.
    __device__ __forceinline__ void pack_channels(int square, int channel, int tap) const {
        Square rows, transposed;
        load(rows, square, int64_t{tap} * kOutChannels + channel, channel < channels);
        transpose(rows, transposed);
#pragma unroll
        for (int j = 0; j < kSide; ++j) store(transposed[j], square, tap, channel + j);
    }
};

/// Packs all weights of the item's channels. All consumers call this together.
__device__ __forceinline__ void pack_own_weights(const TensorCoreArguments& args, const Item& item, uint32_t to) {
    constexpr int kPackers = kConsumers * 128;
    const OwnTile tile(args, item, to);
    if (args.weight_channels_last != 0) {
        constexpr int kChannelSquares = kTileChannels / kSide;
#pragma unroll 2
        for (int i = threadIdx.x; i < kChannelSquares * kAllTaps * kSquares; i += kPackers)
            tile.pack_channels(i / (kChannelSquares * kAllTaps), i % kChannelSquares * kSide,
                               i / kChannelSquares % kAllTaps);
    } else {
#pragma unroll 2
        for (int i = threadIdx.x; i < kTileChannels * kSquares; i += kPackers)
            tile.pack_channel(i / kTileChannels, i % kTileChannels);
    }
}

/// The weights that are in shared memory.
struct OwnWeights {
    int tile = -1; // of output channels, counted through the groups

    /// All consumers come here before the item's first product.
    __device__ __forceinline__ void enter(const TensorCoreArguments& args, const Item& item, const Pipeline& pipe) {
        const int next = item.group * args.grid.channel_tiles + item.channel_tile;
        if (next == tile) return;
        if (tile >= 0) ptx::sync_threads<kConsumers * 128>(); // all have multiplied with those before
        pack_own_weights(args, item, pipe.weights.data);
        if constexpr (kWgmma) ptx::fence_shared_async();
        ptx::sync_threads<kConsumers * 128>();
        tile = next;
    }
};

} // namespace
