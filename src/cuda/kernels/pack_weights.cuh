// Packs the weight for the tensor-core kernels: rounded to tf32, or split in two such parts, or as it is in 16 bits.
// For each group, tile of output channels, rotation and stage there is one block for each tap (h, w) of the plane, k
// step and part, in the order in which tensor cores read K-major operands: core matrices of 8 rows × 16 bytes, two
// along k, then along the rows. A row is (slot of a ring, output channel). With Packing::one_rotation only the first
// rotation is packed, and in a tap group the same eight rows of all blocks lie together.
//
// A CTA packs some k steps of input channels, some output channels and some taps along D. It reads these weights into
// shared memory, neighbours together, and makes the core matrices of all rotations from there:
//
//     weight, in the order of memory ──► shared memory (in, out, taps) ──► core matrices in the workspace
#include "schedule/constants.cuh"

namespace {

constexpr int kPlaneTaps = kKernelH * kKernelW;
constexpr int kPackTaps = kPackTapsD * kPlaneTaps;
constexpr int kPackChannels =
    4 * kLaneChannels; // output channels of a CTA: the rows of a core matrix are some of these
constexpr int kAllSteps = kChunks * kSteps, kAllPassTaps = kPasses * kPassTaps;
constexpr int kSlots = kWeightRows / kTileChannels, kPackedRotations = kRotatesCopies ? kInPlanesD : kRotations;
using Element = typename Unsigned<sizeof(Storage)>::Type;

/// From the taps of one output channel to those of the next, such that eight of them are in different banks.
constexpr int kTapStride = sizeof(Element) == 4 ? kPackTaps | 1 : (kPackTaps + 1) / 4 * 4 + 2;

/// What a CTA packs: kPackTapsD taps along D from `first` on, kPackSteps k steps from `step` on, and the kPackChannels
/// output channels `block` of `tile`, a tile of output channels that is counted through the groups.
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

/// The byte of shared memory of a weight, counted in what the CTA packs.
__device__ uint32_t staged_weight(uint32_t shared, int in, int channel, int tap) {
    return shared + ((in * kPackChannels + channel) * kTapStride + tap) * static_cast<int>(sizeof(Element));
}

// The weight is (outer, inner, taps), or (outer, taps, inner) where its channels are last. Outer are the input
// channels, or the output channels where these come first. A CTA packs kPackOuter and kPackInner of them.
constexpr int kOuterChannels = kWeightOutFirst ? kOutChannels : kInChannels;
constexpr int kInnerChannels = kWeightOutFirst ? kInChannels : kOutChannels;
constexpr int kPackInputs = kPackSteps * kChannelStep;
constexpr int kPackOuter = kWeightOutFirst ? kPackChannels : kPackInputs;
constexpr int kPackInner = kWeightOutFirst ? kPackInputs : kPackChannels;

/// Where a CTA's weights begin, and how many channels and taps there are from there on.
struct PackedWeights {
    const Storage* begin;
    int outer, inner, taps;
    __device__ PackedWeights(const Storage* weight, const PackItem& item, bool channels_last) {
        const int out = item.tile % kChannelTiles * kTileChannels + item.block * kPackChannels;
        const int in = item.step * kChannelStep, group = item.tile / kChannelTiles;
        const int first_outer = kWeightOutFirst ? out : in, first_inner = kWeightOutFirst ? in : out;
        const int first_tap = item.first * kPlaneTaps;
        begin = weight + (static_cast<int64_t>(group) * kOuterChannels + first_outer) * (kInnerChannels * kAllTaps) +
                (channels_last ? first_tap * kInnerChannels + first_inner : first_inner * kAllTaps + first_tap);
        outer = kOuterChannels - first_outer;
        inner = kInnerChannels - first_inner;
        taps = kAllTaps - first_tap;
    }
};

/// A weight, counted in what the CTA packs.
struct StagedWeight {
    int outer, inner, tap;

    /// The weight of a number, by the order in which they lie in memory.
    __device__ static StagedWeight at(int index, bool channels_last) {
        return {index / (kPackTaps * kPackInner), channels_last ? index % kPackInner : index / kPackTaps % kPackInner,
                channels_last ? index / kPackInner % kPackTaps : index % kPackTaps};
    }
    /// The weight k places behind this one in memory, of the same outer channel.
    __device__ StagedWeight behind(int k, bool channels_last) const {
        if (channels_last) return {outer, inner + k, tap};
        return {outer, inner + (tap + k) / kPackTaps, (tap + k) % kPackTaps};
    }
    /// Elements from the CTA's first weight to this one.
    __device__ int64_t offset(bool channels_last) const {
        return static_cast<int64_t>(outer) * kInnerChannels * kAllTaps +
               (channels_last ? tap * kInnerChannels + inner : inner * kAllTaps + tap);
    }
    __device__ uint32_t staged(uint32_t shared) const {
        return staged_weight(shared, kWeightOutFirst ? inner : outer, kWeightOutFirst ? outer : inner, tap);
    }
};

/// Brings a CTA's weights to shared memory one by one, zeros for channels and taps that do not exist. Many loads before
/// the first store.
__device__ void stage_weights(const PackedWeights& weights, bool channels_last, uint32_t shared) {
    constexpr int kCount = kPackOuter * kPackInner * kPackTaps, kAtOnce = 8;
    for (int begin = threadIdx.x; begin < kCount; begin += kAtOnce * blockDim.x) {
        Storage values[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const StagedWeight at = StagedWeight::at(index, channels_last);
            values[i] = Storage{};
            if (index < kCount && at.outer < weights.outer && at.inner < weights.inner && at.tap < weights.taps)
                values[i] = weights.begin[at.offset(channels_last)];
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            if (index < kCount) ptx::store_shared(StagedWeight::at(index, channels_last).staged(shared), values[i]);
        }
    }
}

/// Brings a CTA's weights to shared memory in vectors of 16 bytes, where all of its inner channels exist or none does.
/// A vector holds taps of one channel and then of the next, or channels of one tap.
template <bool ChannelsLast>
__device__ void stage_weight_vectors(const PackedWeights& weights, uint32_t shared) {
    constexpr int kElements = 16 / sizeof(Element), kAtOnce = 4;
    constexpr int kCount = kPackOuter * kPackInner * kPackTaps / kElements;
    const int outer = weights.inner > 0 ? weights.outer : 0;
    for (int begin = threadIdx.x; begin < kCount; begin += kAtOnce * blockDim.x) {
        Pack<Storage, kElements> vectors[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            const StagedWeight at = StagedWeight::at(index * kElements, ChannelsLast);
            const bool exists = index < kCount && at.outer < outer && at.tap < weights.taps;
            vectors[i] = load_readonly_if<kElements>(exists, weights.begin + at.offset(ChannelsLast));
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int index = begin + i * blockDim.x;
            if (index >= kCount) continue;
            const StagedWeight at = StagedWeight::at(index * kElements, ChannelsLast);
#pragma unroll
            for (int k = 0; k < kElements; ++k)
                ptx::store_shared(at.behind(k, ChannelsLast).staged(shared), vectors[i].elements[k]);
        }
    }
}

/// A word of a core matrix, from the byte `from` of shared memory on: a part of fp32, or two channels of 16 bits.
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

/// The output channel that a row of the packed weights is. Where a lane stores neighbouring channels, these are its
/// columns of several blocks of 8, or its two rows.
__device__ int channel_of_row(int row) {
    if constexpr (kGathered && kChannelsLast) return row % 8 * 2 + row / 8;
    return row % 8 / 2 * kLaneChannels + row / 8 * 2 + row % 2;
}

/// Makes the core matrices of all slots that take one of the CTA's taps along D; gaps are zeros, and belong to tap 0. A
/// thread makes one row of each of its core matrices.
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
        // Counted in eight rows, of which a block has kEights.
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
    const PackedWeights weights(weight, item, channels_last != 0);
    constexpr bool kAllInner = kInnerChannels % kPackInner == 0;
    if (kAllInner && channels_last != 0) {
        stage_weight_vectors<true>(weights, staged);
    } else if (kAllInner && kPackTapsD == kKernelD) {
        stage_weight_vectors<false>(weights, staged);
    } else {
        stage_weights(weights, channels_last != 0, staged);
    }
    __syncthreads();
    pack_cores(item, staged, packed);
}
