#pragma once

// Gathered rows of any length in 16 bits, in NCDHW, where a tile has whole rows and two phases along H: what it writes
// of a channel and slice is one contiguous piece of dst. The warpgroups put the rows of their phases into shared
// memory, and the copy engine brings the pieces to dst: only the ends of a piece are parts of a sector.
//
// Warp i of each warpgroup has the same 16 channels. It stages them in two halves, each in a buffer of its own, and
// warp i of another warpgroup has them sent: those that multiply are slower with what that takes.
#include "store/gathered.cuh"

namespace {

// ---- Those that multiply ----

constexpr int kPieceRow = (kTileW - 1) * kStrideW + kLastColumns; // outputs of a row
constexpr int kPieceTensors = kSavesPreactivation ? 2 : 1;

/// Puts this lane's outputs of a row into its channel's piece, where the row begins at `to`. Words there hold two
/// outputs; where the row begins in the middle of one, they are that of a lane's vector and of the vector before it.
/// `finish` makes an output of a sum, its place in the row and whether it exists.
template <typename Finish>
__device__ __forceinline__ void stage_piece_row(const Accumulators& acc, int half, int row, uint32_t to,
                                                Finish finish) {
    const int lane = threadIdx.x % 32;
    const bool odd = to % 4 != 0;
    const uint32_t pick = odd ? 0x5432 : 0x7654;
    uint32_t last = 0; // word of the vector in the block before
#pragma unroll
    for (int block = row * kPitch / 8; block <= (row * kPitch + kTileW - 1) / 8; ++block) {
        const int begin = (block * 8 - row * kPitch) * kStrideW, place = begin + lane % 4 * kVector;
        const bool inside = begin > 0 && begin + 8 * kStrideW < kPieceRow; // whatever the lane
        float values[kVector];
#pragma unroll
        for (int k = 0; k < kVector; ++k)
            values[k] =
                finish(vector_sum(acc, half, block, k), place + k, inside || (place + k >= 0 && place + k < kPieceRow));
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
            const bool two = odd ? at > 0 && at < kPieceRow : at >= 0 && at + 1 < kPieceRow;
            ptx::store_shared_if(inside || two, (to & ~3u) + at * kElementBytes, both);
            const bool one = at == (odd ? 0 : kPieceRow - 1);
            if (!inside) ptx::store_shared_half_if(one, to + at * kElementBytes, vector.words[i]);
            before = vector.words[i];
        }
    }
}

/// Stages 8 channels for a tensor, in the buffer of that use.
template <typename Finish>
__device__ __forceinline__ void stage_piece(const Accumulators& acc, int half, const Item& item, const Piece& piece,
                                            const Buffers& buffers, int use, Finish finish) {
    buffers.wait_freed(use);
    const uint32_t channel = buffers.at(use) + threadIdx.x % 32 / 4 * kStagedBytes + piece.shift();
#pragma unroll
    for (int row = 0; row < kTileH; ++row) {
        const int first = row * kStrideH * kPieceRow;
        stage_piece_row(acc, half, row, channel + (item.first_row() * kPieceRow + first) * kElementBytes,
                        [&](float sum, int place, bool exists) { return finish(sum, first + place, exists); });
    }
    ptx::fence_shared_async();
    ptx::barrier_arrive(buffers.filled(use));
}

__device__ __forceinline__ void stage_half(const Accumulators& acc, int half, const StreamArgs& args,
                                           const Output& output, const Item& item, const Pipeline& pipe,
                                           const Slice& slice, int use) {
    const Buffers buffers = pipe.pieces_of(threadIdx.x / 32 % 4);
    const int c = half_channel(half);
    const float bias = slice.has(c) ? load_bias(output, slice.channel + c) : 0.f;
    const int first = (item.q_h * kStrideH + item.first_row()) * kPieceRow, end = args.dst_h * kPieceRow - first;
    const Index start = slice.index + c * slice.stride + first;
    const auto biased = [&](float sum) { return kHasBias ? sum + bias : sum; };
    if constexpr (kSavesPreactivation)
        stage_piece(acc, half, item, piece_of(args, output.preactivation, item, slice, c), buffers, use++,
                    [&](float sum, int, bool) { return biased(sum); });
    stage_piece(acc, half, item, piece_of(args, output.dst, item, slice, c), buffers, use,
                [&](float sum, int place, bool exists) {
                    return lane_value(biased(sum), output, exists && place < end && slice.has(c), slice.channel + c,
                                      start + place);
                });
}

/// `piece` is that of the slice, counted from the CTA's first.
__device__ __forceinline__ void stage_pieces(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, const Pipeline& pipe, const Slice& slice, int piece) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
        stage_half(acc, half, args, output, item, pipe, slice, (2 * piece + half) * kPieceTensors);
}

// ---- Those that send ----

/// Sends the pieces of 8 channels. Four lanes have one: a lane asks the copy engine, and all take what is not aligned.
__device__ __forceinline__ void send_piece(const Piece& piece, uint32_t shared_src, bool exists) {
    using Element = typename Unsigned<kElementBytes>::Type;
    constexpr int kTurns = 16 / kElementBytes / 4;
    const uint64_t first = piece.aligned_begin(), last = piece.aligned_end();
    const auto shared_at = [&](uint64_t at) { return shared_src + static_cast<uint32_t>(at - piece.begin); };
    if (exists && threadIdx.x % 4 == 0) ptx::copy_bulk_out(first, shared_at(first), static_cast<int>(last - first));
    ptx::copy_bulk_out_commit();
    Element ends[kTurns][2][1];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
        const int place = (turn * 4 + threadIdx.x % 4) * kElementBytes;
        ptx::load_shared(ends[turn][0][0], shared_src + place);
        ptx::load_shared(ends[turn][1][0], shared_at(last) + place);
    }
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
        const int place = (turn * 4 + threadIdx.x % 4) * kElementBytes;
        const uint64_t head = piece.begin + place, tail = last + place;
        ptx::store_if(exists && head < first, reinterpret_cast<void*>(head), ends[turn][0]);
        ptx::store_if(exists && tail < piece.end, reinterpret_cast<void*>(tail), ends[turn][1]);
    }
}

/// Sends 8 channels from `first` on, in the buffer of that use.
__device__ __forceinline__ void send_half(const StreamArgs& args, const Storage* tensor, const Item& item,
                                          const Slice& slice, const Buffers& buffers, int first, int use) {
    const int channel = threadIdx.x % 32 / 4;
    const Piece piece = piece_of(args, tensor, item, slice, first + channel);
    buffers.wait_filled(use);
    send_piece(piece, buffers.at(use) + channel * kStagedBytes + piece.shift(), slice.has(first + channel));
    ptx::copy_bulk_out_wait<0>();
    ptx::barrier_arrive(buffers.freed(use));
}

/// All pieces of the channels of a warp.
__device__ __forceinline__ void send_pieces(const StreamArgs& args, const Output& output, const Pipeline& pipe,
                                            int warp) {
    const Buffers buffers = pipe.pieces_of(warp);
    int use = 0;
#pragma unroll 1
    for (Items items(args); items.next();) {
#pragma unroll 1
        for (int index = items.item.q_d; index < items.item.q_d_end; index += kRowSets) {
            const Step step(index);
            const Slice slice = slice_of(args, items.item, step.d(), step.d() < args.dst_d);
#pragma unroll 1
            for (int first = warp * 16; first < warp * 16 + 16; first += 8) {
                if constexpr (kSavesPreactivation)
                    send_half(args, output.preactivation, items.item, slice, buffers, first, use++);
                send_half(args, output.dst, items.item, slice, buffers, first, use++);
            }
        }
    }
}

} // namespace
