#pragma once

// Finished sums become outputs: bias, epilogue, rounding, and the way from registers to the tensor. All that can be
// known for a whole work item is kept in a few registers, so that a store is little more than its address.
//
// kStore says which way: kStoreVoxel writes the phases of a voxel along w, at once where kAligned says that they are one
// aligned access; kStoreJoined the two phases where they are not, together with the neighbour's; kStorePairs and
// kStoreQuads two and four voxels of 16 bits; kStoreChannels kLaneChannels neighbouring channels.
#include "output.cuh"
#include "stream_multiply.cuh"

namespace {

constexpr int kChannels = kGroups * kCo; // of dst
constexpr int kHwPhases = kStrideH * kStrideW;
constexpr int kLaneColumns = kCoTile / 4; // channels of a slot that a lane has
constexpr int kPlaces = 2 * kMTiles;      // positions that it has
using Index = typename IndexOf<kSmallDst>::Type; // counts all outputs

/// The channel of one of a lane's columns, counted from the work item's first.
__device__ __forceinline__ int lane_channel(int column) {
    return column / kLaneChannels * (4 * kLaneChannels) + threadIdx.x % 4 * kLaneChannels + column % kLaneChannels;
}

/// The sum at a place that is a constant once the loops are unrolled; 0 where there are no taps.
template <int Slot>
__device__ __forceinline__ float sum_at(const Accumulators& acc, int place, int phase, int column) {
    if (Slot < 0 || kAccPhase[phase] < 0) return 0.f;
    const int first = (kAccPhase[phase] < 0 ? 0 : kAccPhase[phase]) * (kN / 2) + (Slot < 0 ? 0 : Slot) * kCoTile / 2;
    return acc.sums[place / 2][first + column / 2 * 4 + place % 2 * 2 + column % 2];
}

/// Clears where the sums are: the compiler would rather make copies of those that are still to be stored.
template <int Slot>
__device__ __forceinline__ void clear_slot(Accumulators& acc) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int phase = 0; phase < kAccPhases; ++phase)
#pragma unroll
            for (int i = 0; i < kCoTile / 2; ++i)
                asm volatile("mov.f32 %0, 0f00000000;" : "=f"(acc.sums[m][phase * (kN / 2) + Slot * kCoTile / 2 + i]));
}

// ---- Where outputs lie ----

/// What may be said of a place: some of its phases h or w do not exist; the warp has the next or the previous one along w
/// too.
enum Fact { kRowsCut, kColumnsCut, kNextJoined, kPreviousJoined };

/// The outputs of a lane's positions, which are the same in every slice and channel of a work item.
struct Places {
    using Facts = typename IndexOf<4 * kPlaces <= 32>::Type;
    int offset[kPlaces]; // of phase (0, 0), counted from the slice's first output; negative where there is none
    Facts facts;         // a bit for each place and Fact

    __device__ __forceinline__ void set(Fact fact, int place) { facts |= Facts{1} << (fact * kPlaces + place); }
    __device__ __forceinline__ bool is(Fact fact, int place) const { return facts >> (fact * kPlaces + place) & 1; }
    __device__ __forceinline__ bool exists(int place, int h) const {
        return offset[place] >= 0 && (h == 0 || !is(kRowsCut, place) || h < kLastRows);
    }
    __device__ __forceinline__ int columns(int place) const {
        return !kAligned && is(kColumnsCut, place) ? kLastColumns : kStrideW;
    }
};

/// Makes the compiler believe that the value may be another one from here on. It would keep what follows from it in
/// registers over all slices, and leave none for the sums.
template <typename Integer>
__device__ __forceinline__ void forget(Integer& value) {
    if constexpr (sizeof(Integer) == 8) {
        asm volatile("" : "+l"(value));
    } else {
        asm volatile("" : "+r"(value));
    }
}

__device__ __forceinline__ void forget(Places& places) {
    forget(places.facts);
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) forget(places.offset[i]);
}

/// `row` is the lane's one of the 8 rows of a core.
__device__ __forceinline__ Places places_of(const StreamArgs& args, const Item& item, int row) {
    Places places;
    places.facts = 0;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
        const Voxel voxel = voxel_at(row_position(i / 2, threadIdx.x / 32 % 4 * 16 + i % 2 * 8 + row));
        const int h = (item.q_h + voxel.row) * kStrideH, w = (item.q_w + voxel.column) * kStrideW;
        const bool exists = voxel.row < kTileH && voxel.column < kTileW && h < args.dst_h && w < args.dst_w &&
                            (kImages == 1 || (voxel.image < kImages && item.n + voxel.image < args.batch));
        const int image = kImages == 1 ? 0 : voxel.image * static_cast<int>(kChannels * args.dst_d * args.dst_slice);
        places.offset[i] = exists ? image + (h * args.dst_w + w) * (kChannelsLast ? kChannels : 1) : -1;
        if (h + kStrideH > args.dst_h) places.set(kRowsCut, i);
        if (w + kStrideW > args.dst_w) places.set(kColumnsCut, i);
    }
    return places;
}

/// Gives every lane the value of the position after its own, of the 16 that a warp has in an m64 tile; nonsense to the
/// last. `first` and `second` belong to a lane's two positions.
template <typename Value>
__device__ __forceinline__ void shift_positions(Value (&shifted)[2], Value first, Value second) {
    const int lane = threadIdx.x % 32;
    shifted[0] = __shfl_sync(0xffffffffu, lane < 4 ? second : first, (lane + 4) % 32);
    shifted[1] = __shfl_sync(0xffffffffu, second, (lane + 4) % 32);
}

/// Finds the neighbours along w.
__device__ __forceinline__ void join(Places& places) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
        int after[2];
        shift_positions(after, places.offset[2 * m], places.offset[2 * m + 1]);
        int next = 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int offset = places.offset[2 * m + half];
            const bool last = half == 1 && lane >= 28;
            if (offset >= 0 && !last && after[half] == offset + kStrideW) next |= 1 << half;
        }
        // The lane before has the position before; the first lane's second position follows the last one's first.
        const int before = __shfl_sync(0xffffffffu, next, (lane + 28) % 32), previous = lane < 4 ? before << 1 : before;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (next >> half & 1) places.set(kNextJoined, 2 * m + half);
            if (previous >> half & 1) places.set(kPreviousJoined, 2 * m + half);
        }
    }
}

/// What a lane knows of a work item: where its own sums belong, and those that it stores.
struct LanePlaces {
    static constexpr bool kTrades = kStore == kStorePairs || kStore == kStoreQuads;
    Places own, stored;
    __device__ __forceinline__ void enter(const StreamArgs& args, const Item& item) {
        const int lane = threadIdx.x % 32, t = lane % 4;
        own = places_of(args, item, lane / 4);
        if constexpr (kTrades) stored = places_of(args, item, kStore == kStorePairs ? 2 * t : t % 2 * 8 + t / 2 * 4);
        if constexpr (kStore == kStoreJoined) join(own);
    }
    __device__ __forceinline__ void forget() {
        ::forget(own);
        if constexpr (kTrades) ::forget(stored);
    }
};

/// The slice that is stored, and the channels of the work item.
struct Slice {
    Index index;    // of its first output in its first channel
    Index stride;   // to the next channel
    int channel;    // the first one
    int count;      // of them that exist

    __device__ __forceinline__ bool has(int c) const { return kCo % kCoTile == 0 ? count > 0 : c < count; }
};

__device__ __forceinline__ float lane_bias(const Output& output, const Slice& slice, int column) {
    const int c = lane_channel(column);
    return slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
}

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

// ---- Contiguous along w ----
//
// Stores go through all voxels of a channel before they go to the next one: neighbours in memory are written shortly
// after one another, and the sectors that two runs share are filled before they leave the cache.

/// One channel, the phases of a voxel along w side by side.
template <int Slot>
__device__ __forceinline__ void store_voxels(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Places& places, const Slice& slice, int column) {
    const int c = lane_channel(column);
    const float bias = lane_bias(output, slice, column);
    const Index first = slice.index + c * slice.stride;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
#pragma unroll
        for (int h = 0; h < kStrideH; ++h) {
            float sums[kStrideW];
#pragma unroll
            for (int w = 0; w < kStrideW; ++w) sums[w] = sum_at<Slot>(acc, i, h * kStrideW + w, column);
            if (slice.has(c) && places.exists(i, h))
                store_outputs<kStrideW>(output, sums, bias, slice.channel + c,
                                        first + (h * args.dst_w + places.offset[i]), places.columns(i), kAligned);
        }
    }
}

/// The value of one of this lane's own outputs, which may not exist.
__device__ __forceinline__ float lane_value(float value, const Output& output, bool exists, int channel, Index index) {
    if constexpr (kOperands == 0) return epilogue(value, output.operands, channel, 0);
    return exists ? epilogue(value, output.operands, channel, index) : 0.f;
}

/// Two phases of the positions of an m64 tile, in rows of odd length: every second one begins between two aligned pairs,
/// and there a pair is the second phase of a voxel and the first of the next. What has no neighbour goes alone.
__device__ __forceinline__ void put_joined(Storage* tensor, const float (&values)[2][2], const LanePlaces& places,
                                           Index first, int m, int h, bool has) {
    float after[2];
    shift_positions(after, values[0][0], values[1][0]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int i = 2 * m + half;
        const bool odd = (static_cast<int>(first) + places.own.offset[i]) & 1, whole = places.own.columns(i) == 2;
        const bool next = places.own.is(kNextJoined, i), previous = places.own.is(kPreviousJoined, i);
        if (!has || !places.own.exists(i, h)) continue;
        Storage* const at = tensor + (first + places.own.offset[i]);
        const float pair[2] = {odd ? values[half][1] : values[half][0], odd ? after[half] : values[half][1]};
        if (odd ? next : whole) store_pack(at + odd, pair);
        if (odd ? !previous : !whole) store(at, values[half][0]);
        if (odd && !next && whole) store(at + 1, values[half][1]);
    }
}

/// One channel.
template <int Slot>
__device__ __forceinline__ void store_joined(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const LanePlaces& places, const Slice& slice, int column) {
    const int c = lane_channel(column);
    const float bias = lane_bias(output, slice, column);
#pragma unroll
    for (int h = 0; h < kStrideH; ++h) {
        Index first = slice.index + c * slice.stride + h * args.dst_w;
        forget(first);
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
            float values[2][2];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                values[k / 2][k % 2] = sum_at<Slot>(acc, 2 * m + k / 2, h * kStrideW + k % 2, column) + bias;
            if constexpr (kSavesPreactivation)
                put_joined(output.preactivation, values, places, first, m, h, slice.has(c));
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int i = 2 * m + k / 2, w = k % 2;
                const bool exists = slice.has(c) && places.own.exists(i, h) && w < places.own.columns(i);
                values[k / 2][w] = lane_value(values[k / 2][w], output, exists, slice.channel + c,
                                              first + places.own.offset[i] + w);
            }
            put_joined(output.dst, values, places, first, m, h, slice.has(c));
        }
    }
}

/// Two neighbouring channels of 16 bits of the positions of an m64 tile. Lanes turn 8 of them around, so that each has
/// two voxels of one channel, and trade those of its two positions for four voxels where rows allow.
template <typename Half>
__device__ __forceinline__ void put_turned(Half* tensor, const float (&values)[2][2], Index first, const Places& places,
                                           int m, int h, bool has) {
    uint32_t pairs[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
        pairs[half] = ptx::transpose_matrix(to_word(values[half][0], values[half][1], Half{}));
    if constexpr (kStore == kStoreQuads) {
        const bool odd = threadIdx.x % 2;
        const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? pairs[0] : pairs[1], 1);
        const Pack<uint32_t, 2> quad = {{odd ? received : pairs[0], odd ? pairs[1] : received}};
        if (has && places.exists(2 * m, h))
            *reinterpret_cast<Pack<uint32_t, 2>*>(tensor + (first + places.offset[2 * m])) = quad;
    } else {
#pragma unroll
        for (int i = 2 * m; i < 2 * m + 2; ++i)
            if (has && places.exists(i, h))
                *reinterpret_cast<uint32_t*>(tensor + (first + places.offset[i])) = pairs[i % 2];
    }
}

/// 8 channels of 16 bits.
template <int Slot>
__device__ __forceinline__ void store_turned(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const LanePlaces& places, const Slice& slice, int j) {
    const int stored = j * 8 + threadIdx.x % 32 / 4, c = lane_channel(2 * j);
    const float bias[2] = {lane_bias(output, slice, 2 * j), lane_bias(output, slice, 2 * j + 1)};
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
        for (int h = 0; h < kStrideH; ++h) {
            const Index first = slice.index + stored * slice.stride + h * args.dst_w;
            float values[2][2]; // of a position, of a channel
#pragma unroll
            for (int k = 0; k < 4; ++k)
                values[k / 2][k % 2] = sum_at<Slot>(acc, 2 * m + k / 2, h, 2 * j + k % 2) + bias[k % 2];
            if constexpr (kSavesPreactivation)
                put_turned(output.preactivation, values, first, places.stored, m, h, slice.has(stored));
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int i = 2 * m + k / 2, own = c + k % 2;
                values[k / 2][k % 2] =
                    lane_value(values[k / 2][k % 2], output, slice.has(own) && places.own.exists(i, h),
                               slice.channel + own,
                               slice.index + own * slice.stride + h * args.dst_w + places.own.offset[i]);
            }
            put_turned(output.dst, values, first, places.stored, m, h, slice.has(stored));
        }
    }
}

// ---- Contiguous along channels ----

/// All channels of one voxel's phases in row h.
template <int Slot>
__device__ __forceinline__ void store_channels(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                               const Places& places, const Slice& slice,
                                               const float (&bias)[kLaneColumns], int place, int h) {
    constexpr bool kWhole = kChannels % kLaneChannels == 0 && kCo % kLaneChannels == 0;
#pragma unroll
    for (int w = 0; w < kStrideW; ++w) {
        const Index first = slice.index + (static_cast<Index>(h) * args.dst_w + w) * kChannels;
        const bool exists = places.exists(place, h) && w < places.columns(place);
#pragma unroll
        for (int column = 0; column < kLaneColumns; column += kLaneChannels) {
            const int c = lane_channel(column);
            float values[kLaneChannels];
#pragma unroll
            for (int i = 0; i < kLaneChannels; ++i)
                values[i] = sum_at<Slot>(acc, place, h * kStrideW + w, column + i) + bias[column + i];
            if (exists && slice.has(c))
                store_values<1>(output, values, slice.channel + c, first + places.offset[place] + c,
                                kWhole ? kLaneChannels : min(slice.count - c, kLaneChannels), kWhole);
        }
    }
}

// ---- Slices ----

/// Stores one D phase's finished output slice. Slot -1: a phase without taps, all zero.
template <int Slot>
__device__ __forceinline__ void store_slice(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                            const Item& item, LanePlaces& places, int d, bool keep) {
    places.forget();
    const Slice slice = slice_of(args, item, d, keep);
    if constexpr (kStore == kStoreChannels) {
        float bias[kLaneColumns];
#pragma unroll
        for (int column = 0; column < kLaneColumns; ++column) bias[column] = lane_bias(output, slice, column);
#pragma unroll
        for (int i = 0; i < kPlaces; ++i)
#pragma unroll
            for (int h = 0; h < kStrideH; ++h) store_channels<Slot>(acc, args, output, places.own, slice, bias, i, h);
    } else if constexpr (LanePlaces::kTrades) {
#pragma unroll
        for (int j = 0; j < kCoTile / 8; ++j) store_turned<Slot>(acc, args, output, places, slice, j);
    } else {
#pragma unroll
        for (int column = 0; column < kLaneColumns; ++column) {
            if constexpr (kStore == kStoreJoined) {
                places.forget();
                store_joined<Slot>(acc, args, output, places, slice, column);
            } else {
                store_voxels<Slot>(acc, args, output, places.own, slice, column);
            }
        }
    }
}

/// After slice `slice` (= Rotation mod kRotations) D phase R has finished q = slice - kRingDelta[R].
template <int Rotation, int R>
__device__ __forceinline__ void finish_phases(Accumulators& acc, const StreamArgs& args, const Output& output,
                                              const Item& item, LanePlaces& places, int slice) {
    if constexpr (R < kDPhases) {
        const int q = slice - kRingDelta[R], d = kStrideD * q + R;
        const bool keep = q >= item.q_d && q < item.q_d_end && d < args.dst_d;
        if constexpr (kRingLength[R] == 0) {
            store_slice<-1>(acc, args, output, item, places, d, keep);
        } else {
            constexpr int kRound = (kRingDelta[R] < 0 ? -kRingDelta[R] : kRingDelta[R]) * kRingLength[R];
            constexpr int kSlot = kRingStart[R] + (Rotation - kRingDelta[R] + kRound) % kRingLength[R];
            store_slice<kSlot>(acc, args, output, item, places, d, keep);
            clear_slot<kSlot>(acc);
        }
        finish_phases<Rotation, R + 1>(acc, args, output, item, places, slice);
    }
}

template <int Rotation>
__device__ __forceinline__ void finish_slice(Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, LanePlaces& places, int slice, int rotation) {
    if constexpr (Rotation < kRotations) {
        if (rotation == Rotation) {
            finish_phases<Rotation, 0>(acc, args, output, item, places, slice);
        } else {
            finish_slice<Rotation + 1>(acc, args, output, item, places, slice, rotation);
        }
    }
}

} // namespace
