// Packs the weight for kernels/stream.cuh: rounded to tf32, or split in two such parts, or as it is in 16 bits.
// For each group, tile of output channels, rotation and stage, one block for each tap (h, w) of the plane, k step and
// part, in the order that tensor cores read K-major operands: cores of 8 rows × 16 bytes, two along k, then along the
// rows. A row is (slot of a ring, output channel). With kTurned only the first rotation is packed, and in a group of
// taps the same eight rows of all blocks lie together.
//
// A CTA packs some k steps of input channels, some output channels and some taps along D. It reads these weights into
// shared memory, many of which are neighbours, and makes all cores from there.
//
// Constants from the host: those of stream_shape.cuh, and kCoTiles; kPackSteps and kPackTapsD, what is in shared
// memory; kUseTapH kUseTapW; kUseGroup, the blocks of a stage before those of a use's group of taps, kGroupUses, the
// uses of that, and kUseIndex, the use's place among them; kPlaceTap, the tap along D of a place in the rings at each
// rotation, -1 for none.
#include "base/storage.cuh"
#include "schedule/shape.cuh"

namespace {

constexpr int kPlaneTaps = kKernelH * kKernelW;
constexpr int kPackTaps = kPackTapsD * kPlaneTaps;
constexpr int kPackChannels = 4 * kLaneChannels; // output channels of a CTA: the rows of a core are some of these
constexpr int kAllSteps = kChunks * kSteps, kAllUses = kPasses * kUses;
constexpr int kPlaces = kWeightRows / kCoTile, kTurns = kTurned ? 1 : kRotations;
using Element = typename Unsigned<sizeof(Storage)>::Type;

/// From the taps of one output channel to those of the next, such that eight of them are in different banks.
constexpr int kTapStride = sizeof(Element) == 4 ? kPackTaps | 1 : (kPackTaps + 1) / 4 * 4 + 2;

/// What a CTA packs: taps along D from `first` on; k steps from `step` on; kPackChannels of a tile; a tile of output
/// channels, counted through the groups.
struct PackItem {
    int first, step, block, tile;
    __device__ explicit PackItem(int index) {
        constexpr int kParcelsD = (kKernelD + kPackTapsD - 1) / kPackTapsD;
        constexpr int kParcels = (kAllSteps + kPackSteps - 1) / kPackSteps, kBlocks = kCoTile / kPackChannels;
        first = index % kParcelsD * kPackTapsD;
        index /= kParcelsD;
        step = index % kParcels * kPackSteps;
        block = index / kParcels % kBlocks;
        tile = index / (kParcels * kBlocks);
    }
    __device__ bool has(int tap_d) const { return tap_d >= first && tap_d < first + kPackTapsD; }
};

__device__ uint32_t staged_weight(uint32_t shared, int ci, int channel, int tap) {
    return shared + ((ci * kPackChannels + channel) * kTapStride + tap) * static_cast<int>(sizeof(Element));
}

/// Where a weight comes from and goes to; `index` counts those of a CTA as they lie in the weight, which is
/// (ci, co, taps), or (ci, taps, co) where its channels are last.
struct StagedWeight {
    int ci, channel, tap;
    __device__ StagedWeight(int index, bool channels_last) {
        ci = index / (kPackTaps * kPackChannels);
        channel = channels_last ? index % kPackChannels : index / kPackTaps % kPackChannels;
        tap = channels_last ? index / kPackChannels % kPackTaps : index % kPackTaps;
    }
};

/// Zeros for channels and taps that do not exist. Many loads before the first store.
__device__ void stage_weights(const Storage* weight, bool channels_last, const PackItem& item, uint32_t shared) {
    constexpr int kCount = kPackSteps * kChannelStep * kPackChannels * kPackTaps, kAtOnce = 8;
    const int group = item.tile / kCoTiles, co = item.tile % kCoTiles * kCoTile + item.block * kPackChannels;
    const int64_t ci = static_cast<int64_t>(group) * kCi + item.step * kChannelStep;
    const int channels = kCo - co, inputs = kCi - item.step * kChannelStep, taps = kAllTaps - item.first * kPlaneTaps;
    const int channel_stride = channels_last ? 1 : kAllTaps, tap_stride = channels_last ? kCo : 1;
    const Storage* from = weight + ci * kCo * kAllTaps + co * channel_stride + item.first * kPlaneTaps * tap_stride;
    for (int begin = threadIdx.x; begin < kCount; begin += kAtOnce * blockDim.x) {
        Storage values[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const StagedWeight at(index, channels_last);
            values[i] = Storage{};
            if (index < kCount && at.ci < inputs && at.channel < channels && at.tap < taps)
                values[i] = from[static_cast<int64_t>(at.ci) * kCo * kAllTaps + at.channel * channel_stride +
                                 at.tap * tap_stride];
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const StagedWeight at(index, channels_last);
            if (index < kCount) ptx::store_shared(staged_weight(shared, at.ci, at.channel, at.tap), values[i]);
        }
    }
}

/// 16 bytes of a CTA's weights: from `channel` and `tap` on, taps and then channels, or channels of one tap.
template <bool ChannelsLast>
struct WholePiece {
    static constexpr int kElements = 16 / sizeof(Element), kChannelPieces = kPackChannels / kElements;
    static constexpr int kRowPieces = kPackChannels * kPackTaps / kElements; // of an input channel
    static constexpr int kCount = kPackSteps * kChannelStep * kRowPieces;
    int ci, channel, tap;

    __device__ explicit WholePiece(int index) {
        const int at = index % kRowPieces;
        ci = index / kRowPieces;
        channel = ChannelsLast ? at % kChannelPieces * kElements : at * kElements / kPackTaps;
        tap = ChannelsLast ? at / kChannelPieces : at * kElements % kPackTaps;
    }
    /// From the CTA's first weight.
    __device__ int64_t offset() const {
        return static_cast<int64_t>(ci) * kCo * kAllTaps +
               (ChannelsLast ? tap * kCo + channel : channel * kAllTaps + tap);
    }
    /// Where element k of it is staged.
    __device__ uint32_t staged(uint32_t shared, int k) const {
        if constexpr (ChannelsLast) return staged_weight(shared, ci, channel + k, tap);
        return staged_weight(shared, ci, channel + (tap + k) / kPackTaps, (tap + k) % kPackTaps);
    }
};

/// The same where all of a CTA's output channels exist or none, and pieces of 16 bytes are contiguous.
template <bool ChannelsLast>
__device__ void stage_whole_weights(const Storage* weight, const PackItem& item, uint32_t shared) {
    using Piece = WholePiece<ChannelsLast>;
    constexpr int kAtOnce = 4;
    const int group = item.tile / kCoTiles, co = item.tile % kCoTiles * kCoTile + item.block * kPackChannels;
    const int64_t ci = static_cast<int64_t>(group) * kCi + item.step * kChannelStep;
    const int inputs = co < kCo ? kCi - item.step * kChannelStep : 0, taps = kAllTaps - item.first * kPlaneTaps;
    const Storage* from =
        weight + (ci * kCo * kAllTaps + (ChannelsLast ? item.first * kPlaneTaps * kCo + co : co * kAllTaps));
    for (int begin = threadIdx.x; begin < Piece::kCount; begin += kAtOnce * blockDim.x) {
        Pack<Storage, Piece::kElements> pieces[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const Piece piece(index);
            const bool exists = index < Piece::kCount && piece.ci < inputs && piece.tap < taps;
            pieces[i] = load_readonly_if<Piece::kElements>(exists, from + piece.offset());
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            if (index >= Piece::kCount) continue;
#pragma unroll
            for (int k = 0; k < Piece::kElements; ++k)
                ptx::store_shared(Piece(index).staged(shared, k), pieces[i].elements[k]);
        }
    }
}

/// A part of a value, or two channels of 16 bits.
__device__ uint32_t packed_word(uint32_t from, int part) {
    Element first;
    ptx::load_shared(first, from);
    if constexpr (kWordChannels == 2) {
        Element second;
        ptx::load_shared(second, staged_weight(from, 1, 0, 0));
        return first | static_cast<uint32_t>(second) << 16;
    } else {
        return tf32_part(__uint_as_float(first), part);
    }
}

/// The output channel of a row: where a lane stores neighbours, its columns of some blocks of 8 are those, or its two
/// rows.
__device__ int channel_of_row(int row) {
    if constexpr (kGathered && kChannelsLast) return row % 8 * 2 + row / 8;
    return row % 8 / 2 * kLaneChannels + row / 8 * 2 + row % 2;
}

/// Makes the cores of places that take one of the taps; those of gaps come with the first. A thread has one row of a
/// core of each.
__device__ void pack_cores(const PackItem& item, uint32_t shared, uint32_t* packed) {
    constexpr int kRows = 2 * kPackChannels, kCores = kPlaces * kAllUses * kParts * kTurns;
    const int row = threadIdx.x % 8 + threadIdx.x % kRows / 16 * 8, core = threadIdx.x / 8 % 2;
    const uint32_t from = staged_weight(shared, core * 4 * kWordChannels, channel_of_row(row), 0);
    const int rows = blockDim.x / kRows, steps = min(kPackSteps, kAllSteps - item.step);
    for (int index = blockIdx.y * rows + threadIdx.x / kRows; index < kCores * steps; index += gridDim.y * rows) {
        const int place = index % kPlaces, use = index / kPlaces % kAllUses;
        const int part = index / (kPlaces * kAllUses) % kParts, turn = index / (kPlaces * kAllUses * kParts) % kTurns;
        const int step = index / kCores, all_step = item.step + step;
        const int tap_d = kPlaceTap[turn * kPlaces + place], gap = tap_d < 0;
        if (!item.has(gap ? 0 : tap_d)) continue;
        Core words = {};
        if (!gap) {
            const int tap = (tap_d - item.first) * kPlaneTaps + kUseTapH[use] * kKernelW + kUseTapW[use];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                words.words[i] =
                    packed_word(staged_weight(from, step * kChannelStep + i * kWordChannels, 0, tap), part);
        }
        const int64_t stage = (static_cast<int64_t>(item.tile) * kTurns + turn) * kChunks + all_step / kSteps;
        // In units of eight rows, which a block has so many of.
        constexpr int kEights = kPlaces * kCoTile / 8;
        const int64_t group = stage * (kSteps * kParts * kAllUses) + kUseGroup[use];
        const int block = (all_step % kSteps * kParts + part) * kGroupUses[use] + kUseIndex[use];
        const int eight = (place * kCoTile + item.block * kPackChannels) / 8 + row / 8;
        const int at = kTurned ? eight * (kSteps * kParts * kGroupUses[use]) + block : block * kEights + eight;
        reinterpret_cast<Core*>(packed)[(group * kEights + at) * 16 + core * 8 + row % 8] = words;
    }
}

} // namespace

extern "C" __global__ void stream_pack(const Storage* weight, int channels_last, uint32_t* packed) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t staged = ptx::shared_address(shared);
    const PackItem item(blockIdx.x);
    ptx::let_next_start();
    constexpr bool kAllChannels = kCo % kPackChannels == 0;
    if (kAllChannels && channels_last != 0) {
        stage_whole_weights<true>(weight, item, staged);
    } else if (kAllChannels && kPackTapsD == kKernelD) {
        stage_whole_weights<false>(weight, item, staged);
    } else {
        stage_weights(weight, channels_last != 0, item, staged);
    }
    __syncthreads();
    pack_cores(item, staged, packed);
}
