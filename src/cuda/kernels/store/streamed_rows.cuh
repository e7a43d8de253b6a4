#pragma once

// Where a tile has whole rows, what it writes of a channel and slice is one contiguous piece of dst. Lanes put their
// outputs into shared memory, and the copy engine brings them to dst in order: rows may have any length, and no sector
// is written twice but at the ends of the piece, which are not aligned.
//
// A column of the lanes is four channels. A buffer has kStagedColumns of them, each sent by a warp; it is free again
// kStagedBuffers later: those warps wait for its copies before they come to the barrier of the last buffer before that.
#include "store/streamed_places.cuh"

namespace {

constexpr int kStagedColumnBytes = 4 * kStagedBytes;
constexpr int kStagedBiases = kStagedColumns == 0 ? 1 : kStagedColumns; // an array cannot be empty

/// Where this lane's channel of a column lies in shared memory: as far from a multiple of 16 as in dst.
__device__ __forceinline__ uint32_t staged_address(const Piece& piece, uint32_t buffer, int column) {
    return buffer + column * kStagedColumnBytes + threadIdx.x % 4 * kStagedBytes + piece.shift();
}

/// Puts this lane's outputs of a row of its place into a buffer: of a channel that does not exist too, which is not
/// sent. `to` has the addresses in the first two columns: every second column is 8 channels further, in dst a multiple
/// of 16 bytes, and so as far from one as that column.
template <int Slot>
__device__ __forceinline__ void stage_row(const Accumulators& acc, const Output& output, const Storing& storing,
                                          const Slice& slice, const float (&bias)[kStagedBiases], int first, int place,
                                          int h, const uint32_t (&to)[2], int offset) {
#pragma unroll
    for (int i = 0; i < kStagedColumns; ++i) {
        const int c = lane_channel(first + i);
#pragma unroll
        for (int w = 0; w < kStrideW; ++w) {
            const int phase = h * kStrideW + w;
            const bool exists = storing.existing.has(place, phase);
            const float value =
                lane_value(sum_at<Slot>(acc, place, phase, first + i) + bias[i], output, exists && slice.has(c),
                           slice.channel + c, slice.index + c * slice.stride + (offset + w));
            Storage stored;
            store(&stored, value);
            ptx::store_shared_if(exists, to[i % 2] + i / 2 * (2 * kStagedColumnBytes) + w * kElementBytes, stored);
        }
    }
}

/// Puts this lane's outputs of the columns from `first` on into their buffer.
template <int Slot>
__device__ __forceinline__ void stage_columns(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                              const Item& item, const Storing& storing, const Slice& slice, int first,
                                              uint32_t buffer) {
    float bias[kStagedBiases];
#pragma unroll
    for (int i = 0; i < kStagedColumns; ++i) bias[i] = lane_bias(output, slice, first + i);
    uint32_t start[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
        start[i] = staged_address(piece_of(args, output.dst, item, slice, lane_channel(first + i)), buffer, i) -
                   tile_start(args, item) * kElementBytes;
#pragma unroll
    for (int place = 0; place < kPlaces; ++place) {
#pragma unroll
        for (int h = 0; h < kRowPhases; ++h) {
            const int offset = storing.own.offset[place] + h * args.dst_w;
            const uint32_t to[2] = {start[0] + offset * kElementBytes, start[1] + offset * kElementBytes};
            stage_row<Slot>(acc, output, storing, slice, bias, first, place, h, to, offset);
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
    const uint32_t buffer = pipe.end + storing.staged % kStagedBuffers * (kStagedColumns * kStagedColumnBytes);
    stage_columns<Slot>(acc, args, output, item, storing, slice, first, buffer);
    ptx::fence_shared_async();
    const int warp = threadIdx.x / 32;
    if (warp < kStagedColumns) ptx::copy_bulk_out_wait<kStagedBuffers - 2>();
    ptx::sync_threads<kConsumers * 128>();
    if (warp < kStagedColumns) {
        const int c = lane_channel(first + warp);
        const Piece piece = piece_of(args, output.dst, item, slice, c);
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
        const Piece piece = piece_of(args, output.dst, item, slice, c);
        const uint64_t first = piece.aligned_begin(), last = piece.aligned_end();
        for (uint64_t at = first + lane * 16; at < last; at += 32 * 16)
            *reinterpret_cast<Pack<Storage, kVector>*>(at) = vector;
        const int before = lane * kElementBytes;
        if (piece.begin + before < first) *reinterpret_cast<Storage*>(piece.begin + before) = vector.elements[0];
        if (last + before < piece.end) *reinterpret_cast<Storage*>(last + before) = vector.elements[0];
    }
}

} // namespace
