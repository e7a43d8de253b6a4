#pragma once

// How the gathered form stores an output slice from registers, where rows are multiples of what a lane stores at once.
// A lane has channels g and g + 8 of its warp's 16, or two neighbours where channels are contiguous, and positions 2t
// and 2t + 1 of every block of 8, with g = lane / 4 and t = lane % 4.
//
// In NCDHW the outputs of a pair of positions lie side by side: they are a vector (Store::pairs). Rows that are no
// multiple of it are stored by store/gathered_warp_rows.cuh. Where the vector is 4 bytes, two lanes exchange their
// vectors of two blocks, so that each has one of four positions (Store::quads):
//
//     lane 0    block 0: a b    block 1: i j    ►    a b c d
//     lane 1    block 0: c d    block 1: k l    ►    i j k l
//
// A kernel for any size, which cannot know where a row of other length ends, has vectors of one position
// (Store::voxels).
#include "multiply/accumulators.cuh"
#include "schedule/pipeline.cuh"
#include "schedule/positions.cuh"
#include "store/slice.cuh"
#include "store/vectors.cuh"

namespace {

constexpr bool kExchanges =
    kStore == Store::quads && kOperands == 0; // an operand belongs to an output of the lane's own
constexpr int kTogether = kExchanges ? 4 : kStore == Store::voxels ? 1 : 2; // positions of a vector
constexpr int kVectors = kMTiles * kColumns / kTogether;                    // of a warpgroup
constexpr int kBlocks = kVectors / 4;                                       // in which each lane has one
constexpr int kVector = kTogether * kStrideW;                               // outputs of a vector
constexpr int kVectorBytes = kVector * sizeof(Storage);

/// This lane's channel in one half of its warp's 16, counted from the work item's first.
__device__ __forceinline__ int half_channel(int half) {
    return threadIdx.x / 32 % 4 * 16 + half * 8 + threadIdx.x % 32 / 4;
}

/// The number of this lane's vector of a block, counted through the warpgroup. Where a vector is one position, eight
/// positions are two blocks.
__device__ __forceinline__ int lane_vector(int block) {
    const int t = threadIdx.x % 4;
    if constexpr (kTogether == 1) return block / 2 * 8 + t * 2 + block % 2;
    return block * 4 + (kExchanges ? t % 2 * 2 + t / 2 : t);
}

/// Where a vector belongs in an output slice.
struct VectorOffset {
    int offset; // of the first one from the slice's first output; negative where there is none
    int count;  // of them that exist

    __device__ __forceinline__ bool exists() const { return offset >= 0; }
};

/// Where all vectors of a warpgroup belong, which is the same in every slice and channel of a work item. Each warpgroup
/// has a table of its own in shared memory, for each phase along H.
struct VectorOffsets {
    uint32_t table;

    __device__ __forceinline__ explicit VectorOffsets(const Pipeline& pipe)
        : table(pipe.end + kOverread + threadIdx.x / 128 * (kRowSets * kVectors * 8)) {}

    __device__ __forceinline__ void enter(const TensorCoreArguments& args, const Item& item) {
        sync(); // nobody reads the last item's any more
#pragma unroll 1
        for (int i = threadIdx.x % 128; i < kRowSets * kVectors; i += 128) {
            const VectorOffset vector = offset_of(args, item, kSetPhase[i / kVectors], i % kVectors);
            ptx::store_shared(table + i * 8, static_cast<uint32_t>(vector.offset));
            ptx::store_shared(table + i * 8 + 4, static_cast<uint32_t>(vector.count));
        }
        sync();
    }

    /// The part of the table for the item's phase along H.
    __device__ __forceinline__ VectorOffsets of_rows(const Item& item) const {
        VectorOffsets offsets = *this;
        offsets.table += item.row_set * (kVectors * 8);
        return offsets;
    }

    /// Where this lane's vector of a block belongs.
    __device__ __forceinline__ VectorOffset at(int block) const {
        constexpr bool kMayBeCut = kChannelsLast || (kTogether == 1 && !kAligned);
        const uint32_t from = table + lane_vector(block) * 8;
        return {static_cast<int>(ptx::load_shared(from)),
                kMayBeCut ? static_cast<int>(ptx::load_shared(from + 4)) : kVector};
    }

private:
    __device__ __forceinline__ static void sync() { ptx::sync_warpgroup(threadIdx.x / 128); }

    __device__ __forceinline__ static VectorOffset offset_of(const TensorCoreArguments& args, const Item& item,
                                                             int phase_h, int vector) {
        const int column = vector * kTogether;
        const int position = row_position(threadIdx.x, column / kColumns, column % kColumns);
        const Geometry geometry(args);
        const Voxel voxel = kContiguous ? Voxel{0, 0, position} : voxel_at(geometry, position);
        const int h = (item.q_h + voxel.row) * kStrideH + phase_h, w = (item.q_w + voxel.column) * kStrideW;
        const int rows = kContiguous ? min(kTileH, args.out_extents.h - item.q_h) : 1;
        const int end = min((item.q_w + geometry.tile_w()) * kStrideW, args.out_extents.w) * rows;
        const bool exists = voxel.row < geometry.tile_h() && h < args.out_extents.h && w < end &&
                            voxel.image < geometry.images() && item.n + voxel.image < args.batch;
        const int image = geometry.images() == 1 ? 0 : voxel.image * static_cast<int>(image_stride(args));
        return {exists ? image + (h * args.out_extents.w + w) * (kChannelsLast ? kAllOutChannels : 1) : -1,
                min(end - w, kVector)};
    }
};

/// A lane's accumulator in a block of 8 positions, of one of its two channels (`half`) and of its two positions.
__device__ __forceinline__ float gathered_accumulator(const Accumulators& acc, int block, int half, int position,
                                                      int phase) {
    if (kPhaseAccumulator[phase] < 0) return 0.f;
    const int first = (kPhaseAccumulator[phase] < 0 ? 0 : kPhaseAccumulator[phase]) * (kColumns / 2);
    return acc.values[block / (kColumns / 8)][first + block % (kColumns / 8) * 4 + half * 2 + position];
}

// ---- Contiguous along w ----

struct Vector {
    static constexpr int kWords = kVectorBytes / 4; // none where outputs of 16 bits are stored one by one
    uint32_t words[kWords > 0 ? kWords : 1];

    /// Exchanges words with the neighbouring lane: each gives the word of one block and has both of the other.
    __device__ __forceinline__ void exchange() {
        if constexpr (kExchanges) {
            const bool odd = threadIdx.x % 2;
            const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? words[0] : words[1], 1);
            words[0] = odd ? received : words[0];
            words[1] = odd ? words[1] : received;
        }
    }

    template <typename Half>
    __device__ __forceinline__ void set(const float (&values)[kVector], Half) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) words[i] = to_word(values[2 * i], values[2 * i + 1], Half{});
    }
    __device__ __forceinline__ void set(const float (&values)[kVector], float) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) words[i] = __float_as_uint(values[i]);
    }
};

/// A lane's vectors of some blocks, one after another, in one channel. Each kind of access is done for all of them
/// before the next kind, so that many are under way.
struct Vectors {
    static constexpr int kMost = 4;
    int block; // the first
    VectorOffset offsets[kMost];

    __device__ __forceinline__ bool has(int i) const { return block + i < kBlocks; }

    /// Stores vectors of one position each.
    __device__ __forceinline__ void put_voxels(Storage* tensor, const float (&values)[kMost][kVector], Index channel,
                                               bool wanted) const {
#pragma unroll
        for (int i = 0; i < kMost; ++i)
            if (has(i))
                store_values(tensor + (channel + offsets[i].offset), values[i], offsets[i].count, kAligned,
                             wanted && offsets[i].exists());
    }

    __device__ __forceinline__ void put(Storage* tensor, const float (&values)[kMost][kVector], Index channel,
                                        bool wanted) const {
        if constexpr (kTogether == 1) return put_voxels(tensor, values, channel, wanted);
        Vector vectors[kMost];
#pragma unroll
        for (int i = 0; i < kMost; ++i) {
            if (!has(i)) continue;
            vectors[i].set(values[i], Storage{});
            vectors[i].exchange();
        }
#pragma unroll
        for (int i = 0; i < kMost; ++i)
            if (has(i))
                ptx::store_if(wanted && offsets[i].exists(), tensor + (channel + offsets[i].offset), vectors[i].words);
    }
};

/// The accumulator of output `k` of a lane's vector, before lanes exchange theirs.
__device__ __forceinline__ float vector_accumulator(const Accumulators& acc, int half, int block, int k) {
    if constexpr (kExchanges) return gathered_accumulator(acc, 2 * block + k / 2, half, k % 2, 0);
    if constexpr (kTogether == 1) return gathered_accumulator(acc, block / 2, half, block % 2, k);
    return gathered_accumulator(acc, block, half, k / kStrideW, k % kStrideW);
}

/// Finishes the outputs of a lane's vector. `index` is that of the first one.
template <Result kResult, typename Exists>
__device__ __forceinline__ void finish_vector(float (&values)[kVector], const Accumulators& acc, int half, int block,
                                              const Output& output, float bias, int channel, Index index,
                                              Exists exists) {
    Fragment<kVector, 0, Index> vector{{}, {bias}, channel, index};
#pragma unroll
    for (int k = 0; k < kVector; ++k) vector.values[k] = vector_accumulator(acc, half, block, k);
    finish<kResult>(vector, output, exists);
#pragma unroll
    for (int k = 0; k < kVector; ++k) values[k] = vector.values[k];
}

/// Stores a lane's outputs of channel `c`, which is row g (`half` 0) or g + 8 of the products.
__device__ __forceinline__ void store_channel(const Accumulators& acc, int half, const Output& output,
                                              const VectorOffsets& offsets, const StoredSlice& slice, int c) {
    const float bias = slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
    const Index channel = slice.index + c * slice.stride;
#pragma unroll
    for (int block = 0; block < kBlocks; block += Vectors::kMost) {
        Vectors vectors;
        vectors.block = block;
#pragma unroll
        for (int i = 0; i < Vectors::kMost; ++i)
            if (vectors.has(i)) vectors.offsets[i] = offsets.at(block + i);
        for_each_result(output, [&](auto result, Storage* tensor) {
            float values[Vectors::kMost][kVector];
#pragma unroll
            for (int i = 0; i < Vectors::kMost; ++i) {
                if (!vectors.has(i)) continue;
                const VectorOffset& vector = vectors.offsets[i];
                finish_vector<result.value>(values[i], acc, half, block + i, output, bias, slice.channel + c,
                                            channel + vector.offset,
                                            [&](int k) { return slice.has(c) && vector.exists() && k < vector.count; });
            }
            vectors.put(tensor, values, channel, slice.has(c));
        });
    }
}

// ---- Contiguous along channels ----

/// Stores a lane's outputs of the neighbouring channels `c` and `c + 1`.
__device__ __forceinline__ void store_neighbours(const Accumulators& acc, const Output& output,
                                                 const VectorOffsets& offsets, const StoredSlice& slice, int c) {
    constexpr bool kEven = kOutChannels % 2 == 0;
    const int count = kEven || slice.has(c + 1) ? 2 : 1;
    float bias[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) bias[i] = slice.has(c + i) ? load_bias(output, slice.channel + c + i) : 0.f;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
        const VectorOffset vector = offsets.at(block);
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
            Fragment<2, 1, Index> channels{{},
                                           {bias[0], bias[1]},
                                           slice.channel + c,
                                           slice.index + c + vector.offset + Index{k} * kAllOutChannels};
#pragma unroll
            for (int half = 0; half < 2; ++half)
                channels.values[half] = gathered_accumulator(acc, block, half, k / kStrideW, k % kStrideW);
            store_fragment(output, channels, count, kEven, slice.has(c) && vector.exists() && k < vector.count);
        }
    }
}

/// Stores a warpgroup's outputs of a slice.
__device__ __forceinline__ void store_vectors(const Accumulators& acc, const Output& output,
                                              const VectorOffsets& offsets, const StoredSlice& slice) {
    if constexpr (kChannelsLast) {
        store_neighbours(acc, output, offsets, slice, threadIdx.x % 128 / 4 * 2);
    } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) store_channel(acc, half, output, offsets, slice, half_channel(half));
    }
}

} // namespace
