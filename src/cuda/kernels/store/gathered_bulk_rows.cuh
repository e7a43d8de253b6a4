#pragma once

// Store::bulk_rows in the gathered form: rows of any length in 16 bits, in NCDHW, where a tile has whole rows and two
// phases along H. What a tile writes of a channel and slice is then one contiguous range of the output. The consumers
// put the rows of their phases into shared memory, and TMA brings the ranges to the output: only the ends of a range
// are parts of a sector.
//
// Warp i of each consumer has the same 16 channels. It stages them in two halves, each in a stage of its own, and warp
// i of the storer warpgroup has them sent: consumers that send them themselves are slower by what that takes.
#include "store/gathered.cuh"

namespace {

// ---- Consumers ----

constexpr int kBulkRow = (kTileW - 1) * kStrideW + kLastColumnPhases; // outputs of a row
constexpr int kBulkResults = kSavesPreactivation ? 2 : 1;

/// The rows of a tile in a lane's channel: where they belong, and how many of their outputs exist.
struct LaneRows {
    float bias;
    int channel; // counted through all groups
    bool exists; // the channel
    Index start; // of the first row
    int end;     // outputs from there to the end of the slice
};

/// Puts this lane's results of a row into its channel's range, where the row begins at `to` and is `first` outputs
/// behind the first row. Words there hold two outputs; where the row begins in the middle of one, a word has the first
/// output of a lane's vector and the last one of the vector before it.
template <Result kResult>
__device__ __forceinline__ void stage_bulk_row(const Accumulators& acc, int half, int row, uint32_t to,
                                               const Output& output, const LaneRows& rows, int first) {
    const int lane = threadIdx.x % 32;
    const bool odd = to % 4 != 0;
    const uint32_t pick = odd ? 0x5432 : 0x7654;
    uint32_t last = 0; // word of the vector in the block before
#pragma unroll
    for (int block = row * kPitch / 8; block <= (row * kPitch + kTileW - 1) / 8; ++block) {
        const int begin = (block * 8 - row * kPitch) * kStrideW, place = begin + lane % 4 * kVector;
        const bool inside = begin > 0 && begin + 8 * kStrideW < kBulkRow; // whatever the lane
        float values[kVector];
        finish_vector<kResult>(values, acc, half, block, output, rows.bias, rows.channel, rows.start + first + place,
                               [&](int k) {
                                   const bool in_row = inside || (place + k >= 0 && place + k < kBulkRow);
                                   return in_row && first + place + k < rows.end && rows.exists;
                               });
        Vector vector;
        vector.set(values, Storage{});
        constexpr int kWords = Vector::kWords;
        const uint32_t given = lane % 4 == 3 ? last : vector.words[kWords - 1];
        last = vector.words[kWords - 1];
        uint32_t before = __shfl_sync(0xffffffffu, given, lane / 4 * 4 + (lane + 3) % 4);
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
            const int at = place + 2 * i;
            const uint32_t both[1] = {__byte_perm(before, vector.words[i], pick)};
            const bool two = odd ? at > 0 && at < kBulkRow : at >= 0 && at + 1 < kBulkRow;
            ptx::store_shared_if(inside || two, (to & ~3u) + at * kElementBytes, both);
            const bool one = at == (odd ? 0 : kBulkRow - 1);
            if (!inside) ptx::store_shared_half_if(one, to + at * kElementBytes, vector.words[i]);
            before = vector.words[i];
        }
    }
}

/// Stages the rows of 8 of the warp's channels. `use` counts the stages of the warp's ring.
__device__ __forceinline__ void stage_bulk_rows(const Accumulators& acc, int half, const TensorCoreArguments& args,
                                                const Output& output, const Item& item, const Pipeline& pipe,
                                                const StoredSlice& slice, int use) {
    const StageRing ring = pipe.stored_by(threadIdx.x / 32 % 4);
    const int c = half_channel(half), first = (item.q_h * kStrideH + item.first_row()) * kBulkRow;
    const LaneRows rows = {slice.has(c) ? load_bias(output, slice.channel + c) : 0.f, slice.channel + c, slice.has(c),
                           slice.index + c * slice.stride + first, args.out_extents.h * kBulkRow - first};
    for_each_result(output, [&](auto result, Storage* tensor) {
        const RowRange range = row_range(args, tensor, item, slice, c);
        ring.wait_empty(use);
        const uint32_t channel = ring.at(use) + threadIdx.x % 32 / 4 * kStoreBytes + range.shift();
#pragma unroll
        for (int row = 0; row < kTileH; ++row) {
            const int before = row * kStrideH * kBulkRow;
            stage_bulk_row<result.value>(
                acc, half, row, channel + (item.first_row() * kBulkRow + before) * kElementBytes, output, rows, before);
        }
        ptx::fence_shared_async();
        ptx::barrier_arrive(ring.full(use));
        ++use;
    });
}

/// Stages the rows of all of the warp's channels. `count` is the number of the slice among those of the CTA.
__device__ __forceinline__ void stage_bulk_rows(const Accumulators& acc, const TensorCoreArguments& args,
                                                const Output& output, const Item& item, const Pipeline& pipe,
                                                const StoredSlice& slice, int count) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
        stage_bulk_rows(acc, half, args, output, item, pipe, slice, (2 * count + half) * kBulkResults);
}

// ---- The storer ----

/// Sends the ranges of 8 channels, of which four lanes have one each. One of these has TMA copy the aligned part, and
/// all of them store the ends.
__device__ __forceinline__ void send_ranges(const RowRange& range, uint32_t shared_src, bool exists) {
    using Element = typename Unsigned<kElementBytes>::Type;
    constexpr int kIterations = 16 / kElementBytes / 4;
    const uint64_t first = range.aligned_begin(), last = range.aligned_end();
    const auto shared_at = [&](uint64_t at) { return shared_src + static_cast<uint32_t>(at - range.begin); };
    if (exists && threadIdx.x % 4 == 0) ptx::copy_bulk_out(first, shared_at(first), static_cast<int>(last - first));
    ptx::copy_bulk_out_commit();
    Element ends[kIterations][2][1];
#pragma unroll
    for (int i = 0; i < kIterations; ++i) {
        const int place = (i * 4 + threadIdx.x % 4) * kElementBytes;
        ptx::load_shared(ends[i][0][0], shared_src + place);
        ptx::load_shared(ends[i][1][0], shared_at(last) + place);
    }
#pragma unroll
    for (int i = 0; i < kIterations; ++i) {
        const int place = (i * 4 + threadIdx.x % 4) * kElementBytes;
        const uint64_t head = range.begin + place, tail = last + place;
        ptx::store_if(exists && head < first, reinterpret_cast<void*>(head), ends[i][0]);
        ptx::store_if(exists && tail < range.end, reinterpret_cast<void*>(tail), ends[i][1]);
    }
}

/// Sends 8 channels from `first` on when they are staged.
__device__ __forceinline__ void send_channels(const TensorCoreArguments& args, const Storage* tensor, const Item& item,
                                              const StoredSlice& slice, const StageRing& ring, int first, int use) {
    const int channel = threadIdx.x % 32 / 4;
    const RowRange range = row_range(args, tensor, item, slice, first + channel);
    ring.wait_full(use);
    send_ranges(range, ring.at(use) + channel * kStoreBytes + range.shift(), slice.has(first + channel));
    ptx::copy_bulk_out_wait<0>();
    ptx::barrier_arrive(ring.empty(use));
}

/// The role of a warp of the storer: it sends all slices of 16 channels.
__device__ __forceinline__ void send_bulk_rows(const TensorCoreArguments& args, const Output& output,
                                               const Pipeline& pipe, int warp) {
    const StageRing ring = pipe.stored_by(warp);
    int use = 0;
#pragma unroll 1
    for (Items items(args); items.next();) {
#pragma unroll 1
        for (int index = items.item.q_d; index < items.item.q_d_end; index += kRowSets) {
            const OutputSlice out(index);
            const StoredSlice slice = stored_slice(args, items.item, out.d(), out.d() < args.out_extents.d);
#pragma unroll 1
            for (int first = warp * 16; first < warp * 16 + 16; first += 8)
                for_each_result(output, [&](auto, Storage* tensor) {
                    send_channels(args, tensor, items.item, slice, ring, first, use++);
                });
        }
    }
}

} // namespace
