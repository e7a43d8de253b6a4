#pragma once

// Store::bulk_rows in the streamed form. Where a tile has whole rows, what it writes of a channel and slice is one
// contiguous range of the output. Lanes put their outputs into shared memory, and TMA brings them to the output: rows
// may have any length, and no sector is written twice but at the ends of the range, which are not aligned.
//
// A column is what four lanes have of a channel each: four channels. A buffer has kStoreColumns columns, each of which
// is sent by a warp. Buffers take turns: before a buffer is filled again, the warps that sent it have waited for its
// copies, and all consumers have then met at the barrier of the last buffer before that.
#include "store/streamed_lanes.cuh"

namespace {

constexpr int kStoreColumnBytes = 4 * kStoreBytes;
constexpr int kStoreBiases = kStoreColumns == 0 ? 1 : kStoreColumns; // an array cannot be empty

/// Where this lane's channel of a column begins in shared memory: as far behind a multiple of 16 bytes as in the
/// output.
__device__ __forceinline__ uint32_t staged_address(const RowRange& range, uint32_t buffer, int column) {
    return buffer + column * kStoreColumnBytes + threadIdx.x % 4 * kStoreBytes + range.shift();
}

/// Puts this lane's outputs of a row of its position into a buffer, also of channels that do not exist, which nobody
/// sends. `to` has the addresses in the first two columns. Every second column is 8 channels further, which in the
/// output is a multiple of 16 bytes: so it begins as far behind such a multiple as the column before it.
template <int Slot>
__device__ __forceinline__ void stage_row(const Accumulators& acc, const Output& output, const LaneOutputs& outputs,
                                          const StoredSlice& slice, const float (&bias)[kStoreBiases], int first,
                                          int position, int h, const uint32_t (&to)[2], int offset) {
#pragma unroll
    for (int i = 0; i < kStoreColumns; ++i) {
        const int c = lane_channel(first + i);
        Fragment<kStrideW, 0, Index> row{{}, {bias[i]}, slice.channel + c, slice.index + c * slice.stride + offset};
#pragma unroll
        for (int w = 0; w < kStrideW; ++w)
            row.values[w] = accumulator_at<Slot>(acc, position, h * kStrideW + w, first + i);
        const auto exists = [&](int w) { return outputs.mask.has(position, h * kStrideW + w); };
        finish<Result::out>(row, output, [&](int w) { return exists(w) && slice.has(c); });
#pragma unroll
        for (int w = 0; w < kStrideW; ++w) {
            Storage stored;
            store(&stored, row.values[w]);
            ptx::store_shared_if(exists(w), to[i % 2] + i / 2 * (2 * kStoreColumnBytes) + w * kElementBytes, stored);
        }
    }
}

/// Puts this lane's outputs of the columns from `first` on into their buffer.
template <int Slot>
__device__ __forceinline__ void stage_columns(const Accumulators& acc, const TensorCoreArguments& args,
                                              const Output& output, const Item& item, const LaneOutputs& outputs,
                                              const StoredSlice& slice, int first, uint32_t buffer) {
    float bias[kStoreBiases];
#pragma unroll
    for (int i = 0; i < kStoreColumns; ++i) bias[i] = lane_bias(output, slice, first + i);
    uint32_t start[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
        start[i] = staged_address(row_range(args, output.out, item, slice, lane_channel(first + i)), buffer, i) -
                   tile_start(args, item) * kElementBytes;
#pragma unroll
    for (int position = 0; position < kLanePositions; ++position) {
#pragma unroll
        for (int h = 0; h < kRowPhases; ++h) {
            const int offset = outputs.own.offset[position] + h * args.out_extents.w;
            const uint32_t to[2] = {start[0] + offset * kElementBytes, start[1] + offset * kElementBytes};
            stage_row<Slot>(acc, output, outputs, slice, bias, first, position, h, to, offset);
        }
    }
}

/// Copies one element from shared memory to the output.
__device__ __forceinline__ void copy_element(uint64_t out, uint32_t shared_src) {
    using Element = typename Unsigned<kElementBytes>::Type;
    Element element;
    ptx::load_shared(element, shared_src);
    *reinterpret_cast<Element*>(out) = element;
}

/// Sends a column, by a warp. Lanes that are four apart have the same channel: one of them has TMA copy the aligned
/// part of its range, and all eight share the ends.
__device__ __forceinline__ void send_range(const RowRange& range, uint32_t shared_src) {
    const uint64_t first = range.aligned_begin(), last = range.aligned_end();
    const auto shared_at = [&](uint64_t at) { return shared_src + static_cast<uint32_t>(at - range.begin); };
    const int part = threadIdx.x % 32 / 4, before = part * kElementBytes;
    if (part == 0) ptx::copy_bulk_out(first, shared_at(first), static_cast<int>(last - first));
    if (range.begin + before < first) copy_element(range.begin + before, shared_src + before);
    if (last + before < range.end) copy_element(last + before, shared_at(last) + before);
}

/// Stores kStoreColumns columns from `first` on. All consumers call this together.
template <int Slot>
__device__ __forceinline__ void store_columns(const Accumulators& acc, const TensorCoreArguments& args,
                                              const Output& output, const Item& item, const Pipeline& pipe,
                                              LaneOutputs& outputs, const StoredSlice& slice, int first) {
    const uint32_t buffer = pipe.end + outputs.staged % kStoreBuffers * (kStoreColumns * kStoreColumnBytes);
    stage_columns<Slot>(acc, args, output, item, outputs, slice, first, buffer);
    ptx::fence_shared_async();
    const int warp = threadIdx.x / 32;
    if (warp < kStoreColumns) ptx::copy_bulk_out_wait<kStoreBuffers - 2>();
    ptx::sync_threads<kConsumers * 128>();
    if (warp < kStoreColumns) {
        const int c = lane_channel(first + warp);
        const RowRange range = row_range(args, output.out, item, slice, c);
        if (slice.has(c)) send_range(range, staged_address(range, buffer, warp));
        ptx::copy_bulk_out_commit();
    }
    ++outputs.staged;
}

/// Stores a slice without taps, where no operand differs from voxel to voxel, so that each channel has one value. A
/// warp stores all of a channel.
__device__ __forceinline__ void fill_slice(const TensorCoreArguments& args, const Output& output, const Item& item,
                                           const StoredSlice& slice) {
    constexpr int kVector = 16 / kElementBytes;
    const int lane = threadIdx.x % 32;
    for (int c = threadIdx.x / 32; c < kTileChannels && slice.has(c); c += kConsumers * 4) {
        const int channel = slice.channel + c;
        Fragment<1, 0, Index> result{{0.f}, {load_bias(output, channel)}, channel, 0};
        finish<Result::out>(result, output, [](int) { return true; });
        Pack<Storage, kVector> vector;
#pragma unroll
        for (int i = 0; i < kVector; ++i) store(&vector.elements[i], result.values[0]);
        const RowRange range = row_range(args, output.out, item, slice, c);
        const uint64_t first = range.aligned_begin(), last = range.aligned_end();
        for (uint64_t at = first + lane * 16; at < last; at += 32 * 16)
            *reinterpret_cast<Pack<Storage, kVector>*>(at) = vector;
        const int before = lane * kElementBytes;
        if (range.begin + before < first) *reinterpret_cast<Storage*>(range.begin + before) = vector.elements[0];
        if (last + before < range.end) *reinterpret_cast<Storage*>(last + before) = vector.elements[0];
    }
}

} // namespace
