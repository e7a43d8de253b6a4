#pragma once

// From global to shared memory, in pieces of 16 bytes. A thread keeps its *slot*, a piece of a row or of a column, and
// goes through the channels or rows that have it: what belongs to the slot is computed once.
#include "reduction/place.cuh"

namespace {

/// Threads that share the channels or rows of a slot.
template <int kSlots>
constexpr int kSharers = kSlots < kThreads ? kThreads / kSlots : 1;

/// Calls body(slot, first) with this thread's slots, and the first channel or row of each: kSharers apart are the
/// others.
template <int kSlots, typename Body>
__device__ __forceinline__ void for_each_slot(const Body& body) {
    for (int index = threadIdx.x; index < kSlots * kSharers<kSlots>; index += kThreads)
        body(index % kSlots, index / kSlots);
}

/// Copies pieces of channels to their positions, zeros where there is no voxel or no channel.
template <typename Tensor>
__device__ __forceinline__ void copy_positions(uint32_t positions, const Place<Tensor>& place) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kSlots = kStaged.pieces() * kStaged.box.w;
    const int64_t row_bytes = place.row_elements() * kElementBytes;
    for_each_slot<kSlots>([&](int slot, int first) {
        const int piece = slot % kStaged.pieces(), at_w = slot / kStaged.pieces();
        const bool exists = place.has_column(at_w) && piece * kPieceElements < place.channels;
        const unsigned char* const column = place.tensor + place.column_element(at_w) * kElementBytes + piece * 16;
        for (int row = first; row < kStaged.box.d * kStaged.box.h; row += kSharers<kSlots>) {
            const int at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
            const bool copies = exists && place.has_row(at_d, at_h);
            const uint32_t to =
                positions + kStaged.box.position(at_d, at_h, at_w) * kStaged.position_bytes() + piece * 16;
            ptx::copy_async_part(to, copies ? column + place.row(at_d, at_h) * row_bytes : place.tensor,
                                 copies ? 16 : 0);
        }
    });
}

/// A piece of a run that begins with the byte `start` of its tensor, and of which the elements `begin` to `end` exist.
struct Piece {
    int from;   // bytes from the run's first to the piece's
    bool holds; // whether it holds something that exists

    __device__ __forceinline__ Piece(int number, int64_t start, int begin, int end)
        : from(number * 16 - static_cast<int>(start & 15)),
          holds(begin < end && from < end * kElementBytes && from + 16 > begin * kElementBytes) {}
};

/// Copies the piece at a byte of its tensor, whose last one may end before 16 bytes are full.
template <typename Tensor>
__device__ __forceinline__ void copy_piece(uint32_t to, const Place<Tensor>& place, int64_t byte) {
    const int64_t left = place.tensor_bytes - byte;
    ptx::copy_async_part(to, place.tensor + byte, left < 16 ? static_cast<int>(left) : 16);
}

/// Copies runs of channels as they lie in memory, the pieces that hold something of them.
template <typename Tensor>
__device__ __forceinline__ void copy_channels(uint32_t raw, const Place<Tensor>& place) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kPieces = kStaged.run_pieces(), kSlots = kPieces * kStaged.box.w;
    const int64_t row_bytes = place.row_elements() * kElementBytes;
    for_each_slot<kSlots>([&](int slot, int first) {
        const int at_w = slot / kPieces, number = slot % kPieces;
        if (!place.has_column(at_w)) return;
        const int64_t column = place.column_element(at_w) * kElementBytes;
        for (int row = first; row < kStaged.box.d * kStaged.box.h; row += kSharers<kSlots>) {
            const int at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
            const int64_t start = column + place.row(at_d, at_h) * row_bytes;
            const Piece piece(number, start, 0, place.channels);
            if (piece.holds && place.has_row(at_d, at_h))
                copy_piece(raw + (row * kStaged.box.w + at_w) * kStaged.run_bytes() + number * 16, place,
                           start + piece.from);
        }
    });
}

/// Copies runs of voxels likewise, a row of the box in each channel.
template <typename Tensor>
__device__ __forceinline__ void copy_rows(uint32_t raw, const Place<Tensor>& place) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kPieces = kStaged.run_pieces(), kRows = kStaged.box.d * kStaged.box.h, kSlots = kPieces * kRows;
    const int begin = max(0, -place.w), end = min(kStaged.box.w, place.extent_w - place.w);
    const int64_t volume_bytes = place.volume() * kElementBytes;
    for_each_slot<kSlots>([&](int slot, int first) {
        const int row = slot / kPieces, number = slot % kPieces, at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
        if (!place.has_row(at_d, at_h)) return;
        int64_t start = (place.first + place.voxel(at_d, at_h, 0)) * kElementBytes + first * volume_bytes;
        uint32_t to = raw + (first * kRows + row) * kStaged.run_bytes() + number * 16;
        Piece piece(number, start, begin, end);
        for (int channel = first; channel < place.channels; channel += kSharers<kSlots>) {
            if (!Tensor::kVolumeAligned) piece = Piece(number, start, begin, end);
            if (piece.holds) copy_piece(to, place, start + piece.from);
            start += kSharers<kSlots> * volume_bytes;
            to += kSharers<kSlots> * kRows * kStaged.run_bytes();
        }
    });
}

template <typename Tensor>
__device__ __forceinline__ void copy_runs(uint32_t raw, const Place<Tensor>& place) {
    if constexpr (kChannelsLast) {
        copy_channels(raw, place);
    } else {
        copy_rows(raw, place);
    }
}

/// Starts the copies of a tile to the stages of its number.
__device__ __forceinline__ void copy_tile(const Tile& tile, uint32_t shared_begin, int64_t number) {
    if constexpr (kCopiesPositions) {
        copy_positions<Src>(src_stage(shared_begin, number), tile.src);
        copy_positions<Dst>(dst_stage(shared_begin, number), tile.dst);
    } else {
        copy_runs<Src>(raw_src_stage(shared_begin, number), tile.src);
        copy_runs<Dst>(raw_dst_stage(shared_begin, number), tile.dst);
    }
}

} // namespace
