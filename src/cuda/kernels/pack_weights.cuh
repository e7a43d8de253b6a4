// Packs the weight for the tensor-core kernels: rounded to tf32, or split in two such parts, or as it is in 16 bits.
// For each group, tile of output channels, rotation and stage there is one block for each tap (h, w) of the plane, k
// step and part, in the order in which tensor cores read K-major operands: core matrices of 8 rows × 16 bytes, two
// along k, then along the rows. A row is (slot of a ring, output channel). With Packing::one_rotation only the first
// rotation is packed, and in a group of taps the same eight rows of all blocks lie together.
//
// A CTA packs some k steps of input channels, some output channels and some taps along D. It reads these weights into
// shared memory, many of which are neighbours, and makes all core matrices from there.
#include "schedule/constants.cuh"

namespace {

constexpr int kPlaneTaps = kKernelH * kKernelW;
constexpr int kPackTaps = kPackTapsD * kPlaneTaps;
constexpr int kPackChannels =
    4 * kLaneChannels; // output channels of a CTA: the rows of a core matrix are some of these
constexpr int kAllSteps = kChunks * kSteps, kAllPassTaps = kPasses * kPassTaps;
constexpr int kSlots = kWeightRows / kTileChannels, kPackedRotations = kRotatesCopies ? 1 : kRotations;
using Element = typename Unsigned<sizeof(Storage)>::Type;

/// From the taps of one output channel to those of the next, such that eight of them are in different banks.
constexpr int kTapStride = sizeof(Element) == 4 ? kPackTaps | 1 : (kPackTaps + 1) / 4 * 4 + 2;

/// What a CTA packs: taps along D from `first` on; k steps from `step` on; kPackChannels of a tile; a tile of output
/// channels, counted through the groups.
struct PackItem {
    int first, step, block, tile;
    __device__ explicit PackItem(int index) {
        constexpr int kParcelsD = (kKernelD + kPackTapsD - 1) / kPackTapsD;
        constexpr int kParcels = (kAllSteps + kPackSteps - 1) / kPackSteps, kBlocks = kTileChannels / kPackChannels;
        first = index % kParcelsD * kPackTapsD;
        index /= kParcelsD;
        step = index % kParcels * kPackSteps;
        block = index / kParcels % kBlocks;
        tile = index / (kParcels * kBlocks);
    }
    __device__ bool has(int tap_d) const { return tap_d >= first && tap_d < first + kPackTapsD; }
};

__device__ uint32_t staged_weight(uint32_t shared, int in, int channel, int tap) {
    return shared + ((in * kPackChannels + channel) * kTapStride + tap) * static_cast<int>(sizeof(Element));
}

/// Where a weight comes from and goes to; `index` counts those of a CTA as they lie in the weight, which is
/// (in, out, taps), or (in, taps, out) where its channels are last.
struct StagedWeight {
    int in, channel, tap;
    __device__ StagedWeight(int index, bool channels_last) {
        in = index / (kPackTaps * kPackChannels);
        channel = channels_last ? index % kPackChannels : index / kPackTaps % kPackChannels;
        tap = channels_last ? index / kPackChannels % kPackTaps : index % kPackTaps;
    }
};

/// Brings a CTA's weights to shared memory one by one, zeros for channels and taps that do not exist. Many loads before
/// the first store.
__device__ void stage_weights(const Storage* weight, bool channels_last, const PackItem& item, uint32_t shared) {
    constexpr int kCount = kPackSteps * kChannelStep * kPackChannels * kPackTaps, kAtOnce = 8;
    const int group = item.tile / kChannelTiles;
    const int out = item.tile % kChannelTiles * kTileChannels + item.block * kPackChannels;
    const int64_t in = static_cast<int64_t>(group) * kInChannels + item.step * kChannelStep;
    const int channels = kOutChannels - out, inputs = kInChannels - item.step * kChannelStep;
    const int taps = kAllTaps - item.first * kPlaneTaps;
    const int channel_stride = channels_last ? 1 : kAllTaps, tap_stride = channels_last ? kOutChannels : 1;
    const Storage* from =
        weight + in * kOutChannels * kAllTaps + out * channel_stride + item.first * kPlaneTaps * tap_stride;
    for (int begin = threadIdx.x; begin < kCount; begin += kAtOnce * blockDim.x) {
        Storage values[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const StagedWeight at(index, channels_last);
            values[i] = Storage{};
            if (index < kCount && at.in < inputs && at.channel < channels && at.tap < taps)
                values[i] = from[static_cast<int64_t>(at.in) * kOutChannels * kAllTaps + at.channel * channel_stride +
                                 at.tap * tap_stride];
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const StagedWeight at(index, channels_last);
            if (index < kCount) ptx::store_shared(staged_weight(shared, at.in, at.channel, at.tap), values[i]);
        }
    }
}

/// 16 bytes of a CTA's weights: from `channel` and `tap` on, taps and then channels, or channels of one tap.
template <bool ChannelsLast>
struct WeightVector {
    static constexpr int kElements = 16 / sizeof(Element), kChannelVectors = kPackChannels / kElements;
    static constexpr int kRowVectors = kPackChannels * kPackTaps / kElements; // of an input channel
    static constexpr int kCount = kPackSteps * kChannelStep * kRowVectors;
    int in, channel, tap;

    __device__ explicit WeightVector(int index) {
        const int at = index % kRowVectors;
        in = index / kRowVectors;
        channel = ChannelsLast ? at % kChannelVectors * kElements : at * kElements / kPackTaps;
        tap = ChannelsLast ? at / kChannelVectors : at * kElements % kPackTaps;
    }
    /// From the CTA's first weight.
    __device__ int64_t offset() const {
        return static_cast<int64_t>(in) * kOutChannels * kAllTaps +
               (ChannelsLast ? tap * kOutChannels + channel : channel * kAllTaps + tap);
    }
    /// Where element k of it is staged.
    __device__ uint32_t staged(uint32_t shared, int k) const {
        if constexpr (ChannelsLast) return staged_weight(shared, in, channel + k, tap);
        return staged_weight(shared, in, channel + (tap + k) / kPackTaps, (tap + k) % kPackTaps);
    }
};

/// The same where all of a CTA's output channels exist or none, and vectors of 16 bytes are contiguous.
template <bool ChannelsLast>
__device__ void stage_weight_vectors(const Storage* weight, const PackItem& item, uint32_t shared) {
    using Vector = WeightVector<ChannelsLast>;
    constexpr int kAtOnce = 4;
    const int group = item.tile / kChannelTiles;
    const int out = item.tile % kChannelTiles * kTileChannels + item.block * kPackChannels;
    const int64_t in = static_cast<int64_t>(group) * kInChannels + item.step * kChannelStep;
    const int inputs = out < kOutChannels ? kInChannels - item.step * kChannelStep : 0;
    const int taps = kAllTaps - item.first * kPlaneTaps;
    const Storage* from = weight + (in * kOutChannels * kAllTaps +
                                    (ChannelsLast ? item.first * kPlaneTaps * kOutChannels + out : out * kAllTaps));
    for (int begin = threadIdx.x; begin < Vector::kCount; begin += kAtOnce * blockDim.x) {
        Pack<Storage, Vector::kElements> vectors[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const Vector vector(index);
            const bool exists = index < Vector::kCount && vector.in < inputs && vector.tap < taps;
            vectors[i] = load_readonly_if<Vector::kElements>(exists, from + vector.offset());
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            if (index >= Vector::kCount) continue;
#pragma unroll
            for (int k = 0; k < Vector::kElements; ++k)
                ptx::store_shared(Vector(index).staged(shared, k), vectors[i].elements[k]);
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

/// The output channel of a row. Where a lane stores neighbouring channels, these are its columns of several blocks of
/// 8, or its two rows.
__device__ int channel_of_row(int row) {
    if constexpr (kGathered && kChannelsLast) return row % 8 * 2 + row / 8;
    return row % 8 / 2 * kLaneChannels + row / 8 * 2 + row % 2;
}

/// Makes the core matrices of slots that take one of the taps along D; those of gaps come with the first. A thread has
/// one row of a core matrix of each.
__device__ void pack_cores(const PackItem& item, uint32_t shared, uint32_t* packed) {
    constexpr int kRows = 2 * kPackChannels, kCores = kSlots * kAllPassTaps * kParts * kPackedRotations;
    const int row = threadIdx.x % 8 + threadIdx.x % kRows / 16 * 8, core = threadIdx.x / 8 % 2;
    const uint32_t from = staged_weight(shared, core * 4 * kWordChannels, channel_of_row(row), 0);
    const int rows = blockDim.x / kRows, steps = min(kPackSteps, kAllSteps - item.step);
    for (int index = blockIdx.y * rows + threadIdx.x / kRows; index < kCores * steps; index += gridDim.y * rows) {
        const int slot = index % kSlots, tap = index / kSlots % kAllPassTaps;
        const int part = index / (kSlots * kAllPassTaps) % kParts;
        const int rotation = index / (kSlots * kAllPassTaps * kParts) % kPackedRotations;
        const int step = index / kCores, all_step = item.step + step;
        const int tap_d = kSlotTap[rotation * kSlots + slot], gap = tap_d < 0;
        if (!item.has(gap ? 0 : tap_d)) continue;
        CoreRow words = {};
        if (!gap) {
            const int staged_tap = (tap_d - item.first) * kPlaneTaps + kTapH[tap] * kKernelW + kTapW[tap];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                words.words[i] =
                    packed_word(staged_weight(from, step * kChannelStep + i * kWordChannels, 0, staged_tap), part);
        }
        const int64_t stage =
            (static_cast<int64_t>(item.tile) * kPackedRotations + rotation) * kChunks + all_step / kSteps;
        // In units of eight rows, which a block has so many of.
        constexpr int kEights = kSlots * kTileChannels / 8;
        const int64_t group = stage * (kSteps * kParts * kAllPassTaps) + kTapBlock[tap];
        const int block = (all_step % kSteps * kParts + part) * kTapGroupTaps[tap] + kTapIndex[tap];
        const int eight = (slot * kTileChannels + item.block * kPackChannels) / 8 + row / 8;
        const int at =
            kRotatesCopies ? eight * (kSteps * kParts * kTapGroupTaps[tap]) + block : block * kEights + eight;
        reinterpret_cast<CoreRow*>(packed)[(group * kEights + at) * 16 + core * 8 + row % 8] = words;
    }
}

} // namespace

extern "C" __global__ void pack_weights(const Storage* weight, int channels_last, uint32_t* packed) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const uint32_t staged = ptx::shared_address(shared);
    const PackItem item(blockIdx.x);
    ptx::let_next_start();
    constexpr bool kAllChannels = kOutChannels % kPackChannels == 0;
    if (kAllChannels && channels_last != 0) {
        stage_weight_vectors<true>(weight, item, staged);
    } else if (kAllChannels && kPackTapsD == kKernelD) {
        stage_weight_vectors<false>(weight, item, staged);
    } else {
        stage_weights(weight, channels_last != 0, item, staged);
    }
    __syncthreads();
    pack_cores(item, staged, packed);
}
