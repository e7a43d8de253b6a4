#pragma once

// From global to shared memory, in pieces of 16 bytes. A thread keeps its place within rows or runs and goes through
// those that lie at one distance from one another.
#include "reduction/place.cuh"

namespace {

/// Calls body(slot, line) for all slots and lines, once by some thread. Neighbouring threads have neighbouring slots.
template <int kSlots, int kLines, typename Body>
__device__ __forceinline__ void for_each_line(const Body& body) {
    constexpr int kSharers = kSlots < kThreads ? kThreads / kSlots : 1; // threads that share the lines of a slot
    for (int index = threadIdx.x; index < kSlots * kSharers; index += kThreads)
        for (int line = index / kSlots; line < kLines; line += kSharers) body(index % kSlots, line);
}

/// Copies pieces of channels to their positions, zeros where there is no voxel or no channel.
template <typename Tensor>
__device__ __forceinline__ void copy_positions(uint32_t positions, const Place<Tensor>& place) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    for_each_line<kStaged.pieces() * kStaged.box.w, kStaged.box.d * kStaged.box.h>([&](int slot, int line) {
        const int piece = slot % kStaged.pieces(), at_w = slot / kStaged.pieces();
        const int at_h = line % kStaged.box.h, at_d = line / kStaged.box.h;
        const bool exists =
            place.has_row(at_d, at_h) && place.has_column(at_w) && piece * kPieceElements < place.channels;
        const int64_t element = exists ? place.first + place.voxel(at_d, at_h, at_w) * Place<Tensor>::kAllChannels : 0;
        ptx::copy_async_or_zeros(
            exists, positions + kStaged.box.position(at_d, at_h, at_w) * kStaged.position_bytes() + piece * 16,
            place.tensor + element * kElementBytes + (exists ? piece * 16 : 0));
    });
}

/// Copies the pieces of a run that begins at `start` and has `begin` to `end` of its elements: those that hold one.
__device__ __forceinline__ void copy_piece(uint32_t run, const unsigned char* tensor, int64_t start, int piece,
                                           int begin, int end) {
    const int64_t bytes = start * kElementBytes;
    const int from = piece * 16 - static_cast<int>(bytes & 15); // from the run's first byte to the piece's
    if (from < end * kElementBytes && from + 16 > begin * kElementBytes)
        ptx::copy_async(run + piece * 16, tensor + bytes + from);
}

/// Copies runs as they lie in memory, the pieces that hold something of them.
template <typename Tensor>
__device__ __forceinline__ void copy_runs(uint32_t raw, const Place<Tensor>& place) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kPieces = kStaged.run_pieces(), kRows = kStaged.box.d * kStaged.box.h;
    if constexpr (kChannelsLast) {
        for_each_line<kPieces * kStaged.box.w, kRows>([&](int slot, int row) {
            const int at_w = slot / kPieces, at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
            if (place.has_row(at_d, at_h) && place.has_column(at_w))
                copy_piece(raw + (row * kStaged.box.w + at_w) * kStaged.run_bytes(), place.tensor,
                           place.first + place.voxel(at_d, at_h, at_w) * Place<Tensor>::kAllChannels, slot % kPieces, 0,
                           place.channels);
        });
    } else {
        const int begin = max(0, -place.w), end = min(kStaged.box.w, place.extent_w - place.w);
        for_each_line<kPieces * kRows, kStaged.channels>([&](int slot, int channel) {
            const int row = slot / kPieces, at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
            if (place.has_row(at_d, at_h) && channel < place.channels && begin < end)
                copy_piece(raw + (channel * kRows + row) * kStaged.run_bytes(), place.tensor,
                           place.first + channel * place.volume() + place.voxel(at_d, at_h, 0), slot % kPieces, begin,
                           end);
        });
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
