#pragma once

// Where a tile has whole rows, what it writes of a channel and slice is one contiguous piece of dst. Lanes put their
// outputs into shared memory, and the copy engine brings them to dst in order: rows may have any length, and no sector
// is written twice but at the ends of the piece, which are not aligned.
//
// A column of the lanes is four channels. A buffer has kStagedColumns of them, each sent by a warp; it is free again
// kStagedBuffers later: those warps wait for its copies before they come to the barrier of the last buffer before that.
#include "stream_places.cuh"

namespace {

constexpr int kElementBytes = sizeof(Storage);

/// The contiguous outputs of a tile in this lane's channel of a column.
struct Piece {
    uint64_t begin;  // address in dst
    int count;       // of elements
    uint32_t shared; // address in a buffer: as far from a multiple of 16 as `begin`
};

__device__ __forceinline__ int tile_start(const StreamArgs& args, const Item& item) {
    return item.q_h * kStrideH * args.dst_w;
}

__device__ __forceinline__ Piece piece_of(const StreamArgs& args, const Output& output, const Item& item,
                                          const Slice& slice, int column, uint32_t buffer) {
    const int c = lane_channel(column), rows = min(kTileH * kStrideH, args.dst_h - item.q_h * kStrideH);
    Piece piece;
    piece.begin = reinterpret_cast<uint64_t>(output.dst + (slice.index + c * slice.stride + tile_start(args, item)));
    piece.count = slice.has(c) ? rows * args.dst_w : 0;
    piece.shared = buffer + threadIdx.x % 4 * kStagedBytes + static_cast<uint32_t>(piece.begin % 16);
    return piece;
}

/// Puts this lane's outputs of a column into its buffer.
template <int Slot>
__device__ __forceinline__ void stage_column(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Places& places, const Slice& slice, int column, uint32_t to) {
    const int c = lane_channel(column);
    const float bias = lane_bias(output, slice, column);
    const Index first = slice.index + c * slice.stride;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
#pragma unroll
        for (int phase = 0; phase < kHwPhases; ++phase) {
            const int h = phase / kStrideW, w = phase % kStrideW, offset = places.offset[i] + h * args.dst_w + w;
            const bool exists = slice.has(c) && places.exists(i, h) && w < places.columns(i);
            const float value = lane_value(sum_at<Slot>(acc, i, phase, column) + bias, output, exists,
                                           slice.channel + c, first + offset);
            Storage stored;
            store(&stored, value);
            if (exists) ptx::store_shared(to + offset * kElementBytes, stored);
        }
    }
}

/// One element from shared memory to dst.
__device__ __forceinline__ void copy_element(uint64_t dst, uint32_t shared_src) {
    using Element = typename Unsigned<kElementBytes>::Type;
    Element element;
    ptx::load_shared(element, shared_src);
    *reinterpret_cast<Element*>(dst) = element;
}

/// A warp sends a column: its lanes' channels repeat every four, so eight of them share what is not aligned in one.
__device__ __forceinline__ void send_piece(const Piece& piece) {
    if (piece.count > 0) {
        const uint64_t end = piece.begin + static_cast<uint64_t>(piece.count) * kElementBytes;
        const uint64_t first = (piece.begin + 15) / 16 * 16, last = end / 16 * 16;
        const int part = threadIdx.x % 32 / 4;
        if (part == 0)
            ptx::copy_bulk_out(first, piece.shared + static_cast<uint32_t>(first - piece.begin),
                               static_cast<int>(last - first));
        const int before = part * kElementBytes;
        if (piece.begin + before < first) copy_element(piece.begin + before, piece.shared + before);
        if (last + before < end)
            copy_element(last + before, piece.shared + static_cast<uint32_t>(last - piece.begin) + before);
    }
    ptx::copy_bulk_out_commit();
}

/// kStagedColumns from `first` on, by all consumers together.
template <int Slot>
__device__ __forceinline__ void store_staged(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, const Pipeline& pipe, Storing& storing,
                                             const Slice& slice, int first) {
    const uint32_t buffer = pipe.end + storing.staged % kStagedBuffers * (kStagedColumns * 4 * kStagedBytes);
#pragma unroll
    for (int i = 0; i < kStagedColumns; ++i) {
        const Piece piece = piece_of(args, output, item, slice, first + i, buffer + i * 4 * kStagedBytes);
        stage_column<Slot>(acc, args, output, storing.own, slice, first + i,
                           piece.shared - tile_start(args, item) * kElementBytes);
    }
    ptx::fence_shared_async();
    const int warp = threadIdx.x / 32;
    if (warp < kStagedColumns) ptx::copy_bulk_out_wait<kStagedBuffers - 2>();
    ptx::sync_threads<kConsumers * 128>();
    if (warp < kStagedColumns)
        send_piece(piece_of(args, output, item, slice, first + warp, buffer + warp * 4 * kStagedBytes));
    ++storing.staged;
}

} // namespace
