#pragma once

// Store::warp_rows and Store::seamed_rows: gathered rows of any length, in NCDHW. Where rows are no multiples of a
// lane's vector, they begin anywhere between two vectors. A warp puts a row of 8 of its channels into its own part of
// shared memory, vector by vector, and takes it out one output for each lane, so that neighbours go to the output
// together wherever they begin.
//
// Where two rows meet within a sector, a seam, each stores a part of it, which is slow unless the L2 cache has the
// sector. With Store::seamed_rows zeros go to all seams of a slice before the products of its first rows.
#include "store/gathered.cuh"

namespace {

constexpr int kRowOutputs = kTileW * kStrideW;          // of a row of the tile
constexpr int kRowIterations = (kRowOutputs + 31) / 32; // in which a warp sends it

/// Puts zeros into the sectors of a tensor in which rows of a tile meet, by four lanes for each. All outputs there are
/// stored later, by this warpgroup or by the other one.
__device__ __forceinline__ void clear_seams(const TensorCoreArguments& args, const Item& item, const StoredSlice& slice,
                                            Storage* tensor) {
    constexpr int kSector = 32, kRows = kTileH * kStrideH;
    const uint32_t zeros[2] = {0, 0};
    const int lane = threadIdx.x % 32, first = item.q_h * kStrideH;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int c = half_channel(half);
        const Storage* start = tensor + (slice.index + c * slice.stride + first * args.out_extents.w);
#pragma unroll
        for (int row = 1; row < kRows; ++row) {
            const uint64_t border = reinterpret_cast<uint64_t>(start + row * args.out_extents.w);
            const bool seam = slice.has(c) && first + row < args.out_extents.h && border % kSector != 0;
            ptx::store_if(seam, reinterpret_cast<void*>(border / kSector * kSector + lane % 4 * 8), zeros);
        }
    }
}

__device__ __forceinline__ void clear_seams(const TensorCoreArguments& args, const Output& output, const Item& item,
                                            const StoredSlice& slice) {
    for_each_result(output, [&](auto, Storage* tensor) { clear_seams(args, item, slice, tensor); });
    __syncwarp();
}

/// A row of the output that the tile has, the same in all channels.
struct TileRow {
    int offset; // of its first output from the slice's first
    int count;  // of its outputs that exist

    __device__ __forceinline__ TileRow(const TensorCoreArguments& args, const Item& item, int row) {
        const int h = (item.q_h + row) * kStrideH + item.first_row(), w = item.q_w * kStrideW;
        offset = h * args.out_extents.w + w;
        count = h < args.out_extents.h ? min(args.out_extents.w - w, kRowOutputs) : 0;
    }
};

/// What a warp stores at a time: a row of the output in 8 channels from `first` on; `shared` is where they are put.
struct WarpRows {
    const StoredSlice& slice;
    TileRow row;
    int first;
    uint32_t shared;

    /// Stores the row in kCount channels. All outputs are loaded from shared memory before the first one is stored.
    template <int kCount>
    __device__ __forceinline__ void send(Storage* tensor, int channel) const {
        using Element = typename Unsigned<kElementBytes>::Type;
        const int lane = threadIdx.x % 32;
        Element elements[kCount][kRowIterations][1];
#pragma unroll
        for (int i = 0; i < kCount; ++i)
#pragma unroll
            for (int j = 0; j < kRowIterations; ++j)
                ptx::load_shared(elements[i][j][0],
                                 shared + (channel + i) * kStoreBytes + (j * 32 + lane) * kElementBytes);
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const int c = first + channel + i;
            Storage* to = tensor + (slice.index + c * slice.stride + row.offset + lane);
#pragma unroll
            for (int j = 0; j < kRowIterations; ++j)
                ptx::store_if(slice.has(c) && j * 32 + lane < row.count, to + j * 32, elements[i][j]);
        }
    }
};

/// Puts this lane's results of a row into shared memory.
template <Result kResult>
__device__ __forceinline__ void stage_warp_row(const Accumulators& acc, int half, int row, const Output& output,
                                               float bias, const WarpRows& rows) {
    const int begin = row * kPitch, end = begin + kTileW; // positions
    const uint32_t shared = rows.shared + threadIdx.x % 32 / 4 * kStoreBytes;
    const int c = half_channel(half);
    const Index start = rows.slice.index + c * rows.slice.stride + rows.row.offset;
#pragma unroll
    for (int block = begin / 8; block <= (end - 1) / 8; ++block) {
        const bool inside = block * 8 >= begin && block * 8 + 8 <= end; // whatever the lane
        const int place = (block * 8 + threadIdx.x % 4 * 2 - begin) * kStrideW;
        const bool wanted = inside || (place >= 0 && place < kRowOutputs);
        float values[kVector];
        finish_vector<kResult>(values, acc, half, block, output, bias, rows.slice.channel + c, start + place,
                               [&](int k) { return wanted && place + k < rows.row.count && rows.slice.has(c); });
        Vector vector;
        vector.set(values, Storage{});
        ptx::store_shared_if(wanted, shared + place * kElementBytes, vector.words);
    }
}

/// Stores the rows of 8 of the warp's channels.
__device__ __forceinline__ void store_warp_rows(const Accumulators& acc, int half, const TensorCoreArguments& args,
                                                const Output& output, const Item& item, const Pipeline& pipe,
                                                const StoredSlice& slice) {
    constexpr int kChannelsAtOnce = 4;
    const int c = half_channel(half), first = c - threadIdx.x % 32 / 4;
    const uint32_t shared = pipe.end + kOverread + threadIdx.x / 32 * (8 * kStoreBytes);
    const float bias = slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
#pragma unroll
    for (int row = 0; row < kTileH; ++row) {
        const WarpRows rows = {slice, TileRow(args, item, row), first, shared};
        for_each_result(output, [&](auto result, Storage* tensor) {
            stage_warp_row<result.value>(acc, half, row, output, bias, rows);
            __syncwarp();
#pragma unroll 1
            for (int channel = 0; channel < 8; channel += kChannelsAtOnce) rows.send<kChannelsAtOnce>(tensor, channel);
            __syncwarp();
        });
    }
}

/// Stores the rows of all of the warp's channels.
__device__ __forceinline__ void store_warp_rows(const Accumulators& acc, const TensorCoreArguments& args,
                                                const Output& output, const Item& item, const Pipeline& pipe,
                                                const StoredSlice& slice) {
#pragma unroll
    for (int half = 0; half < 2; ++half) store_warp_rows(acc, half, args, output, item, pipe, slice);
}

} // namespace
