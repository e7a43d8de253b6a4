#pragma once

// Gathered rows of any length, in NCDHW. Where they are no multiples of a lane's vector, rows begin anywhere between
// two of them. A warp puts a row of 8 of its channels into its own part of shared memory, each as far from a multiple
// of 16 bytes as in dst, and takes it out 16 bytes at a time; only what is left at its ends goes to dst one by one.
#include "gather_store.cuh"

namespace {

constexpr int kPieceElements = 16 / kElementBytes;
constexpr int kRowOutputs = kTileW * kStrideW;                          // of a row of the tile
constexpr int kRowPieces = (kRowOutputs * kElementBytes + 2 * 15) / 16; // of 16 bytes that a row may touch
constexpr int kSenders = 16;                                            // lanes that send a row

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
};

/// One of its rows, by address.
struct StagedRow {
    uint64_t dst;
    uint32_t shared;
    int count; // of its outputs that exist

    __device__ __forceinline__ StagedRow(Storage* tensor, const WarpRows& rows, int channel) {
        const int c = rows.first + channel;
        dst = reinterpret_cast<uint64_t>(tensor + (rows.slice.index + c * rows.slice.stride + rows.row.offset));
        shared = rows.shared + channel * kStagedBytes + before();
        count = rows.slice.has(c) ? rows.row.count : 0;
    }
    /// Bytes from a multiple of 16 to the row.
    __device__ __forceinline__ int before() const { return static_cast<int>(dst % 16); }

    __device__ __forceinline__ void send_element(int i, bool wanted) const {
        using Element = typename Unsigned<kElementBytes>::Type;
        Element element[1];
        ptx::load_shared(element[0], shared + i * kElementBytes);
        ptx::store_if(wanted, reinterpret_cast<void*>(dst + i * kElementBytes), element);
    }

    /// Four lanes send the outputs before the first whole piece, and those behind the last.
    __device__ __forceinline__ void send_ends() const {
        const int head = min(count, (16 - before()) % 16 / kElementBytes);
        const int tail = max(head, (before() + count * kElementBytes) / 16 * kPieceElements - before() / kElementBytes);
#pragma unroll
        for (int i = threadIdx.x % 4; i < kPieceElements; i += 4) {
            send_element(i, i < head);
            send_element(min(tail + i, kRowOutputs - 1), tail + i < count);
        }
    }

    /// kSenders lanes send the whole pieces.
    __device__ __forceinline__ void send_pieces() const {
#pragma unroll
        for (int first = 0; first < kRowPieces; first += kSenders) {
            const int piece = first + threadIdx.x % kSenders, byte = piece * 16 - before();
            uint32_t words[4];
            ptx::load_shared(words, shared - before() + min(piece, kRowPieces - 1) * 16);
            ptx::store_if(byte >= 0 && byte + 16 <= count * kElementBytes, reinterpret_cast<void*>(dst + byte), words);
        }
    }
};

/// Puts outputs that are neighbours into a row, some bytes behind its start. It may begin in the middle of a word.
template <typename Half>
__device__ __forceinline__ void put_vector(bool wanted, uint32_t row, int bytes, const Vector& vector, Half) {
    const bool odd = row % 4 != 0;
    const uint32_t aligned = (row + 2) / 4 * 4;
    constexpr int kLast = Vector::kWords - 1;
#pragma unroll
    for (int i = 0; i < kLast; ++i) {
        const uint32_t word[1] = {odd ? __funnelshift_r(vector.words[i], vector.words[i + 1], 16) : vector.words[i]};
        ptx::store_shared_if(wanted, aligned + bytes + i * 4, word);
    }
    const uint32_t word[1] = {vector.words[kLast]};
    ptx::store_shared_if(wanted && !odd, aligned + bytes + kLast * 4, word);
    Half first, last;
    first.bits = static_cast<uint16_t>(vector.words[0]);
    last.bits = static_cast<uint16_t>(vector.words[kLast] >> 16);
    ptx::store_shared_if(wanted && odd, row + bytes, first);
    ptx::store_shared_if(wanted && odd, row + bytes + kLast * 4 + 2, last);
}
__device__ __forceinline__ void put_vector(bool wanted, uint32_t row, int bytes, const Vector& vector, float) {
#pragma unroll
    for (int i = 0; i < Vector::kWords; ++i) {
        const uint32_t word[1] = {vector.words[i]};
        ptx::store_shared_if(wanted, row + bytes + i * 4, word);
    }
}

/// Puts this lane's outputs of a row into shared memory. `finish` makes an output of a sum, its place in the row and
/// whether it exists.
template <int Half, int Row, typename Finish>
__device__ __forceinline__ void stage_row(const Accumulators& acc, const StagedRow& row, Finish finish) {
    constexpr int kFirst = Row * kPitch / 8, kLast = (Row * kPitch + kTileW - 1) / 8;
#pragma unroll
    for (int block = kFirst; block <= kLast; ++block) {
        const bool inside = block * 8 >= Row * kPitch && block * 8 + 8 <= Row * kPitch + kTileW; // whatever the lane
        const int place = (block * 8 + threadIdx.x % 4 * 2 - Row * kPitch) * kStrideW;
        const bool wanted = inside || (place >= 0 && place < kRowOutputs);
        float values[kVector];
#pragma unroll
        for (int k = 0; k < kVector; ++k)
            values[k] = finish(vector_sum<Half>(acc, block, k), place + k, wanted && place + k < row.count);
        Vector vector;
        vector.set(values, Storage{});
        put_vector(wanted, row.shared, place * kElementBytes, vector, Storage{});
    }
}

/// Stages a row of 8 channels, and sends it to a tensor.
template <int Half, int Row, typename Finish>
__device__ __forceinline__ void store_staged_row(const Accumulators& acc, Storage* tensor, const WarpRows& rows,
                                                 Finish finish) {
    const int lane = threadIdx.x % 32;
    const StagedRow own(tensor, rows, lane / 4);
    stage_row<Half, Row>(acc, own, finish);
    __syncwarp();
#pragma unroll 1
    for (int channel = lane / kSenders; channel < 8; channel += 32 / kSenders)
        StagedRow(tensor, rows, channel).send_pieces();
    own.send_ends();
    __syncwarp();
}

template <int Half, int Row>
__device__ __forceinline__ void store_rows(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                           const Item& item, uint32_t shared, const Slice& slice, float bias) {
    if constexpr (Row < kTileH) {
        const int first = threadIdx.x / 32 % 4 * 16 + Half * 8, c = first + threadIdx.x % 32 / 4;
        const WarpRows rows = {slice, TileRow(args, item, Row), first, shared};
        const auto biased = [&](float sum) { return kHasBias ? sum + bias : sum; };
        if constexpr (kSavesPreactivation)
            store_staged_row<Half, Row>(acc, output.preactivation, rows,
                                        [&](float sum, int, bool) { return biased(sum); });
        const Index start = slice.index + c * slice.stride + rows.row.offset;
        store_staged_row<Half, Row>(acc, output.dst, rows, [&](float sum, int place, bool exists) {
            return lane_value(biased(sum), output, exists, slice.channel + c, start + place);
        });
        store_rows<Half, Row + 1>(acc, args, output, item, shared, slice, bias);
    }
}

template <int Half>
__device__ __forceinline__ void store_half(const Accumulators& acc, const StreamArgs& args, const Output& output,
                                           const Item& item, const Pipeline& pipe, const Slice& slice) {
    const int c = threadIdx.x / 32 % 4 * 16 + Half * 8 + threadIdx.x % 32 / 4;
    store_rows<Half, 0>(acc, args, output, item, pipe.end + kOverread + threadIdx.x / 32 * (8 * kStagedBytes), slice,
                        slice.has(c) ? load_bias(output, slice.channel + c) : 0.f);
}

__device__ __forceinline__ void store_gathered_rows(const Accumulators& acc, const StreamArgs& args,
                                                    const Output& output, const Item& item, const Pipeline& pipe,
                                                    const Slice& slice) {
    store_half<0>(acc, args, output, item, pipe, slice);
    store_half<1>(acc, args, output, item, pipe, slice);
}

} // namespace
