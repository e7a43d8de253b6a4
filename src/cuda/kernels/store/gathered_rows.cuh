#pragma once

// Gathered rows of any length, in NCDHW. Where they are no multiples of a lane's vector, rows begin anywhere between
// two of them. A warp puts a row of 8 of its channels into its own part of shared memory, vector by vector, and takes
// it out one output for each lane, so that neighbours go to dst together wherever they begin.
//
// Where two rows meet within a sector, a seam, each stores a part of it, which is slow unless the L2 cache has the
// sector. With kSeams, zeros go to all seams of a slice before the products of its first rows.
#include "store/gathered.cuh"

namespace {

constexpr int kRowOutputs = kTileW * kStrideW;     // of a row of the tile
constexpr int kRowTurns = (kRowOutputs + 31) / 32; // in which a warp sends it

/// Puts zeros into the sectors of a tensor in which rows of a tile meet, four lanes for each: all are stored later, by
/// this warpgroup or by another one in its turn.
__device__ __forceinline__ void clear_seams(const StreamArgs& args, const Item& item, const Slice& slice,
                                            Storage* tensor) {
    constexpr int kSector = 32, kRows = kTileH * kStrideH;
    const uint32_t zeros[2] = {0, 0};
    const int lane = threadIdx.x % 32, first = item.q_h * kStrideH;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int c = half_channel(half);
        const Storage* start = tensor + (slice.index + c * slice.stride + first * args.dst_w);
#pragma unroll
        for (int row = 1; row < kRows; ++row) {
            const uint64_t border = reinterpret_cast<uint64_t>(start + row * args.dst_w);
            const bool seam = slice.has(c) && first + row < args.dst_h && border % kSector != 0;
            ptx::store_if(seam, reinterpret_cast<void*>(border / kSector * kSector + lane % 4 * 8), zeros);
        }
    }
}

__device__ __forceinline__ void clear_seams(const StreamArgs& args, const Output& output, const Item& item,
                                            const Slice& slice) {
    if constexpr (kSavesPreactivation) clear_seams(args, item, slice, output.preactivation);
    clear_seams(args, item, slice, output.dst);
    __syncwarp();
}

/// A row of dst that the tile has, the same in all channels.
struct TileRow {
    int offset; // of its first output from the slice's first
    int count;  // of its outputs that exist

    __device__ __forceinline__ TileRow(const StreamArgs& args, const Item& item, int row) {
        const int h = (item.q_h + row) * kStrideH + item.first_row(), w = item.q_w * kStrideW;
        offset = h * args.dst_w + w;
        count = h < args.dst_h ? min(args.dst_w - w, kRowOutputs) : 0;
    }
};

/// What a warp stores at a time: a row of dst in 8 channels from `first` on; `shared` is where they are put.
struct WarpRows {
    const Slice& slice;
    TileRow row;
    int first;
    uint32_t shared;

    /// Sends some channels. All are loaded before the first is stored.
    template <int kCount>
    __device__ __forceinline__ void send(Storage* tensor, int channel) const {
        using Element = typename Unsigned<kElementBytes>::Type;
        const int lane = threadIdx.x % 32;
        Element elements[kCount][kRowTurns][1];
#pragma unroll
        for (int i = 0; i < kCount; ++i)
#pragma unroll
            for (int turn = 0; turn < kRowTurns; ++turn)
                ptx::load_shared(elements[i][turn][0],
                                 shared + (channel + i) * kStagedBytes + (turn * 32 + lane) * kElementBytes);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const int c = first + channel + i;
            Storage* to = tensor + (slice.index + c * slice.stride + row.offset + lane);
#pragma unroll
            for (int turn = 0; turn < kRowTurns; ++turn)
                ptx::store_if(slice.has(c) && turn * 32 + lane < row.count, to + turn * 32, elements[i][turn]);
        }
    }
};

/// Puts this lane's outputs of a row into shared memory. `finish` makes an output of a sum, its place in the row and
/// whether it exists.
template <typename Finish>
__device__ __forceinline__ void stage_row(const Accumulators& acc, int half, int row, const WarpRows& rows,
                                          Finish finish) {
    const int begin = row * kPitch, end = begin + kTileW; // positions
    const uint32_t shared = rows.shared + threadIdx.x % 32 / 4 * kStagedBytes;
#pragma unroll
    for (int block = begin / 8; block <= (end - 1) / 8; ++block) {
        const bool inside = block * 8 >= begin && block * 8 + 8 <= end; // whatever the lane
        const int place = (block * 8 + threadIdx.x % 4 * 2 - begin) * kStrideW;
        const bool wanted = inside || (place >= 0 && place < kRowOutputs);
        float values[kVector];
#pragma unroll
        for (int k = 0; k < kVector; ++k)
            values[k] = finish(vector_sum(acc, half, block, k), place + k, wanted && place + k < rows.row.count);
        Vector vector;
        vector.set(values, Storage{});
        ptx::store_shared_if(wanted, shared + place * kElementBytes, vector.words);
    }
}

/// Stages a row of 8 channels, and sends it to a tensor.
template <typename Finish>
__device__ __forceinline__ void store_staged_row(const Accumulators& acc, int half, int row, Storage* tensor,
                                                 const WarpRows& rows, Finish finish) {
    constexpr int kTogether = 4; // channels
    stage_row(acc, half, row, rows, finish);
    __syncwarp();
#pragma unroll 1
    for (int channel = 0; channel < 8; channel += kTogether) rows.send<kTogether>(tensor, channel);
    __syncwarp();
}

__device__ __forceinline__ void store_half(const Accumulators& acc, int half, const StreamArgs& args,
                                           const Output& output, const Item& item, const Pipeline& pipe,
                                           const Slice& slice) {
    const int c = half_channel(half), first = c - threadIdx.x % 32 / 4;
    const uint32_t shared = pipe.end + kOverread + threadIdx.x / 32 * (8 * kStagedBytes);
    const float bias = slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
    const auto biased = [&](float sum) { return kHasBias ? sum + bias : sum; };
#pragma unroll
    for (int row = 0; row < kTileH; ++row) {
        const WarpRows rows = {slice, TileRow(args, item, row), first, shared};
        if constexpr (kSavesPreactivation)
            store_staged_row(acc, half, row, output.preactivation, rows,
                             [&](float sum, int, bool) { return biased(sum); });
        const Index start = slice.index + c * slice.stride + rows.row.offset;
        store_staged_row(acc, half, row, output.dst, rows, [&](float sum, int place, bool exists) {
            return lane_value(biased(sum), output, exists && slice.has(c), slice.channel + c, start + place);
        });
    }
}

__device__ __forceinline__ void store_gathered_rows(const Accumulators& acc, const StreamArgs& args,
                                                    const Output& output, const Item& item, const Pipeline& pipe,
                                                    const Slice& slice) {
#pragma unroll
    for (int half = 0; half < 2; ++half) store_half(acc, half, args, output, item, pipe, slice);
}

} // namespace
