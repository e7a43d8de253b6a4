#pragma once

// The sums of a gathered slice become outputs. A lane has channels g and g + 8 of its warp's 16, or two neighbours
// where channels are contiguous, and positions 2t and 2t + 1 of every 8, with g = lane / 4 and t = lane % 4.
//
// In NCDHW the outputs of such a pair of positions lie side by side: a vector, of which rows are multiples (others: see
// gather_rows.cuh). Where it is 4 bytes, two lanes trade those of two blocks of 8 positions for vectors of four.
//
// Constants from the host: kTrades, whether lanes may; kContiguous, whether the rows of a tile follow one another in
// its positions as they do in dst.
#include "multiply/multiply.cuh"
#include "store/slice.cuh"

namespace {

constexpr bool kTraded = kTrades && kOperands == 0; // each operand belongs to an output of the lane's own
constexpr int kTogether = kTraded ? 4 : 2;          // positions of a vector
constexpr int kVectors = kMTiles * kN / kTogether;  // of a warpgroup
constexpr int kBlocks = kVectors / 4;               // in which each lane has one
constexpr int kVector = kTogether * kStrideW;       // outputs of a vector
constexpr int kVectorBytes = kVector * sizeof(Storage);

/// This lane's channel in one half of its warp's 16, counted from the work item's first.
__device__ __forceinline__ int half_channel(int half) {
    return threadIdx.x / 32 % 4 * 16 + half * 8 + threadIdx.x % 32 / 4;
}

/// The place of this lane's vector in a block.
__device__ __forceinline__ int vector_place() {
    const int t = threadIdx.x % 4;
    return kTraded ? t % 2 * 2 + t / 2 : t;
}

/// Where the outputs of a vector are.
struct VectorPlace {
    int offset; // of the first one from the slice's first output; negative where there is none
    int count;  // of them that exist, where channels are contiguous

    __device__ __forceinline__ bool exists() const { return offset >= 0; }
};

/// Those of all vectors of a warpgroup, the same in every slice and channel of a work item. They are in shared memory,
/// each warpgroup's own.
struct VectorPlaces {
    uint32_t table;

    __device__ __forceinline__ explicit VectorPlaces(const Pipeline& pipe)
        : table(pipe.end + kOverread + threadIdx.x / 128 * (kRowSets * kVectors * 8)) {}

    __device__ __forceinline__ void enter(const StreamArgs& args, const Item& item) {
        sync(); // the last item's are no longer read
#pragma unroll 1
        for (int i = threadIdx.x % 128; i < kRowSets * kVectors; i += 128) {
            const VectorPlace place = place_of(args, item, kSetPhase[i / kVectors], i % kVectors);
            ptx::store_shared(table + i * 8, static_cast<uint32_t>(place.offset));
            ptx::store_shared(table + i * 8 + 4, static_cast<uint32_t>(place.count));
        }
        sync();
    }

    /// Those of the item's phase along H.
    __device__ __forceinline__ VectorPlaces of_rows(const Item& item) const {
        VectorPlaces places = *this;
        places.table += item.row_set * (kVectors * 8);
        return places;
    }

    /// The place of this lane's vector in a block.
    __device__ __forceinline__ VectorPlace at(int block) const {
        const uint32_t from = table + (block * 4 + vector_place()) * 8;
        return {static_cast<int>(ptx::load_shared(from)),
                kChannelsLast ? static_cast<int>(ptx::load_shared(from + 4)) : kVector};
    }

private:
    __device__ __forceinline__ static void sync() { ptx::sync_warpgroup(threadIdx.x / 128); }

    __device__ __forceinline__ static VectorPlace place_of(const StreamArgs& args, const Item& item, int phase_h,
                                                           int vector) {
        const int column = vector * kTogether, position = row_position(threadIdx.x, column / kN, column % kN);
        const Voxel voxel = kContiguous ? Voxel{0, 0, position} : voxel_at(position);
        const int h = (item.q_h + voxel.row) * kStrideH + phase_h, w = (item.q_w + voxel.column) * kStrideW;
        const int rows = kContiguous ? min(kTileH, args.dst_h - item.q_h) : 1;
        const int end = min((item.q_w + kTileW) * kStrideW, args.dst_w) * rows;
        const bool exists = voxel.row < kTileH && h < args.dst_h && w < end && voxel.image < kImages &&
                            item.n + voxel.image < args.batch;
        const int image = kImages == 1 ? 0 : voxel.image * static_cast<int>(image_stride(args));
        return {exists ? image + (h * args.dst_w + w) * (kChannelsLast ? kChannels : 1) : -1, min(end - w, kVector)};
    }
};

/// A lane's sum in a block of 8 positions: of one of its two rows and two positions.
__device__ __forceinline__ float gathered_sum(const Accumulators& acc, int block, int half, int position, int phase) {
    if (kAccPhase[phase] < 0) return 0.f;
    const int first = (kAccPhase[phase] < 0 ? 0 : kAccPhase[phase]) * (kN / 2);
    return acc.sums[block / (kN / 8)][first + block % (kN / 8) * 4 + half * 2 + position];
}

// ---- Contiguous along w ----

struct Vector {
    static constexpr int kWords = kVectorBytes / 4;
    uint32_t words[kWords];

    /// Two words of neighbours, those of two blocks: two lanes trade them, and have four neighbours each.
    __device__ __forceinline__ void trade() {
        if constexpr (kTraded) {
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

/// Vectors of blocks that follow one another, in one channel. Each kind of access is done for all of them before the
/// next kind, so that many are under way.
struct Vectors {
    static constexpr int kMost = 4;
    int block; // the first
    VectorPlace places[kMost];
    float values[kMost][kVector];

    __device__ __forceinline__ bool has(int i) const { return block + i < kBlocks; }

    __device__ __forceinline__ void put(Storage* tensor, Index channel, bool wanted) const {
        Vector vectors[kMost];
#pragma unroll
        for (int i = 0; i < kMost; ++i) {
            if (!has(i)) continue;
            vectors[i].set(values[i], Storage{});
            vectors[i].trade();
        }
#pragma unroll
        for (int i = 0; i < kMost; ++i)
            if (has(i))
                ptx::store_if(wanted && places[i].exists(), tensor + (channel + places[i].offset), vectors[i].words);
    }
};

/// A lane's sum for one of a vector's outputs, before it is traded.
__device__ __forceinline__ float vector_sum(const Accumulators& acc, int half, int block, int k) {
    if constexpr (kTraded) return gathered_sum(acc, 2 * block + k / 2, half, k % 2, 0);
    return gathered_sum(acc, block, half, k / kStrideW, k % kStrideW);
}

/// The outputs of channel `c`, which is row g or g + 8 of the products.
__device__ __forceinline__ void store_channel(const Accumulators& acc, int half, const Output& output,
                                              const VectorPlaces& places, const Slice& slice, int c) {
    const float bias = slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
    const Index channel = slice.index + c * slice.stride;
#pragma unroll
    for (int block = 0; block < kBlocks; block += Vectors::kMost) {
        Vectors vectors;
        vectors.block = block;
#pragma unroll
        for (int i = 0; i < Vectors::kMost; ++i) {
            if (!vectors.has(i)) continue;
            vectors.places[i] = places.at(block + i);
#pragma unroll
            for (int k = 0; k < kVector; ++k) vectors.values[i][k] = vector_sum(acc, half, block + i, k) + bias;
        }
        if constexpr (kSavesPreactivation) vectors.put(output.preactivation, channel, slice.has(c));
#pragma unroll
        for (int i = 0; i < Vectors::kMost; ++i) {
            if (!vectors.has(i)) continue;
            const VectorPlace& place = vectors.places[i];
#pragma unroll
            for (int k = 0; k < kVector; ++k)
                vectors.values[i][k] = lane_value(vectors.values[i][k], output, slice.has(c) && place.exists(),
                                                  slice.channel + c, channel + place.offset + k);
        }
        vectors.put(output.dst, channel, slice.has(c));
    }
}

// ---- Contiguous along channels ----

__device__ __forceinline__ void store_neighbours(const Accumulators& acc, const Output& output,
                                                 const VectorPlaces& places, const Slice& slice, int c) {
    constexpr bool kEven = kCo % 2 == 0;
    const int count = kEven || slice.has(c + 1) ? 2 : 1;
    float bias[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) bias[i] = slice.has(c + i) ? load_bias(output, slice.channel + c + i) : 0.f;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
        const VectorPlace place = places.at(block);
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
            float values[2];
#pragma unroll
            for (int half = 0; half < 2; ++half)
                values[half] = gathered_sum(acc, block, half, k / kStrideW, k % kStrideW) + bias[half];
            store_values<1>(output, values, slice.channel + c, slice.index + c + place.offset + Index{k} * kChannels,
                            count, kEven, slice.has(c) && place.exists() && k < place.count);
        }
    }
}

__device__ __forceinline__ void store_gathered(const Accumulators& acc, const Output& output,
                                               const VectorPlaces& places, const Slice& slice) {
    if constexpr (kChannelsLast) {
        store_neighbours(acc, output, places, slice, threadIdx.x % 128 / 4 * 2);
    } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) store_channel(acc, half, output, places, slice, half_channel(half));
    }
}

} // namespace
