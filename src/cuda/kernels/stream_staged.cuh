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

/// The contiguous outputs of a tile in a channel, by address in dst. They are no fewer than 32 bytes.
struct Piece {
    uint64_t begin, end;
    /// Between these they are aligned for the widest copies.
    __device__ __forceinline__ uint64_t aligned_begin() const { return (begin + 15) / 16 * 16; }
    __device__ __forceinline__ uint64_t aligned_end() const { return end / 16 * 16; }
};

__device__ __forceinline__ int tile_start(const StreamArgs& args, const Item& item) {
    return item.q_h * kStrideH * args.dst_w;
}

__device__ __forceinline__ Piece piece_of(const StreamArgs& args, const Output& output, const Item& item,
                                          const Slice& slice, int c) {
    const int rows = min(kTileH * kStrideH, args.dst_h - item.q_h * kStrideH);
    const Storage* begin = output.dst + (slice.index + c * slice.stride + tile_start(args, item));
    return {reinterpret_cast<uint64_t>(begin), reinterpret_cast<uint64_t>(begin + rows * args.dst_w)};
}

/// Where this lane's channel of a column lies in shared memory: as far from a multiple of 16 as in dst.
__device__ __forceinline__ uint32_t staged_address(const Piece& piece, uint32_t buffer, int column) {
    return buffer + (column * 4 + threadIdx.x % 4) * kStagedBytes + static_cast<uint32_t>(piece.begin % 16);
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
__device__ __forceinline__ void send_piece(const Piece& piece, uint32_t shared_src) {
    const uint64_t first = piece.aligned_begin(), last = piece.aligned_end();
    const auto shared_at = [&](uint64_t at) { return shared_src + static_cast<uint32_t>(at - piece.begin); };
    const int part = threadIdx.x % 32 / 4, before = part * kElementBytes;
    if (part == 0) ptx::copy_bulk_out(first, shared_at(first), static_cast<int>(last - first));
    if (piece.begin + before < first) copy_element(piece.begin + before, shared_src + before);
    if (last + before < piece.end) copy_element(last + before, shared_at(last) + before);
}

/// kStagedColumns from `first` on, by all consumers together.
template <int Slot>
__device__ __forceinline__ void store_staged(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, const Pipeline& pipe, Storing& storing,
                                             const Slice& slice, int first) {
    const uint32_t buffer = pipe.end + storing.staged % kStagedBuffers * (kStagedColumns * 4 * kStagedBytes);
#pragma unroll
    for (int i = 0; i < kStagedColumns; ++i) {
        const Piece piece = piece_of(args, output, item, slice, lane_channel(first + i));
        stage_column<Slot>(acc, args, output, storing.own, slice, first + i,
                           staged_address(piece, buffer, i) - tile_start(args, item) * kElementBytes);
    }
    ptx::fence_shared_async();
    const int warp = threadIdx.x / 32;
    if (warp < kStagedColumns) ptx::copy_bulk_out_wait<kStagedBuffers - 2>();
    ptx::sync_threads<kConsumers * 128>();
    if (warp < kStagedColumns) {
        const int c = lane_channel(first + warp);
        const Piece piece = piece_of(args, output, item, slice, c);
        if (slice.has(c)) send_piece(piece, staged_address(piece, buffer, warp));
        ptx::copy_bulk_out_commit();
    }
    ++storing.staged;
}

/// A slice without taps, and without operands that differ from voxel to voxel: a warp stores all of a channel.
__device__ __forceinline__ void fill_slice(const StreamArgs& args, const Output& output, const Item& item,
                                           const Slice& slice) {
    constexpr int kVector = 16 / kElementBytes;
    const int lane = threadIdx.x % 32;
    for (int c = threadIdx.x / 32; c < kCoTile && slice.has(c); c += kConsumers * 4) {
        const int channel = slice.channel + c;
        const float value = lane_value(load_bias(output, channel), output, true, channel, 0);
        Pack<Storage, kVector> vector;
#pragma unroll
        for (int i = 0; i < kVector; ++i) store(&vector.elements[i], value);
        const Piece piece = piece_of(args, output, item, slice, c);
        const uint64_t first = piece.aligned_begin(), last = piece.aligned_end();
        for (uint64_t at = first + lane * 16; at < last; at += 32 * 16)
            *reinterpret_cast<Pack<Storage, kVector>*>(at) = vector;
        const int before = lane * kElementBytes;
        if (piece.begin + before < first) *reinterpret_cast<Storage*>(piece.begin + before) = vector.elements[0];
        if (last + before < piece.end) *reinterpret_cast<Storage*>(last + before) = vector.elements[0];
    }
}

} // namespace
