#pragma once

// From global to shared memory by cp.async, in vectors of 16 bytes. A *strip* is the same vector in each row of a box,
// or in each channel: a constant distance apart in memory. A thread computes what belongs to its strip once, and goes
// through the strip's rows or channels. Threads beside one another have vectors beside one another in memory.
#include "reduction/walk.cuh"

namespace {

/// Threads that share a strip, where a box has fewer strips than the CTA has threads.
template <int kStrips>
constexpr int kSharers = kStrips < kThreads ? kThreads / kStrips : 1;

/// Calls body(strip, first) for each strip of this thread. `first` is the first of its rows or channels that is the
/// thread's; each next one is kSharers further.
template <int kStrips, typename Body>
__device__ __forceinline__ void for_each_strip(const Body& body) {
    for (int index = threadIdx.x; index < kStrips * kSharers<kStrips>; index += kThreads)
        body(index % kStrips, index / kStrips);
}

/// Copies the channels of each voxel to its position, zeros where there is no voxel or no channel. A strip is a vector
/// of channels of a column of the box, in all rows.
template <typename Tensor>
__device__ __forceinline__ void copy_positions(uint32_t positions, const TensorBox<Tensor>& box) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kStrips = kStaged.vectors() * kStaged.box.w;
    const int64_t row_bytes = box.row_elements() * kElementBytes;
    for_each_strip<kStrips>([&](int strip, int first) {
        const int vector = strip % kStaged.vectors(), at_w = strip / kStaged.vectors();
        const bool exists = box.has_column(at_w) && vector * kVectorElements < box.channels;
        const unsigned char* const column = box.tensor + box.column_element(at_w) * kElementBytes + vector * 16;
        for (int row = first; row < kStaged.box.d * kStaged.box.h; row += kSharers<kStrips>) {
            const int at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
            const bool copies = exists && box.has_row(at_d, at_h);
            const uint32_t to =
                positions + kStaged.box.position(at_d, at_h, at_w) * kStaged.position_bytes() + vector * 16;
            ptx::copy_async_part(to, copies ? column + box.row(at_d, at_h) * row_bytes : box.tensor, copies ? 16 : 0);
        }
    });
}

/// An aligned vector of the run that begins with the byte `start` of its tensor, and of which the elements `begin` to
/// `end` exist. The first vector may begin before the run, and the last one may end behind it:
///
///     16 bytes    |. . a b|c d e f|g . . .|     the run a to g: vectors 0, 1 and 2
struct RunVector {
    int from;   // bytes from where the run begins to where the vector does; negative for the first one
    bool holds; // whether it holds an element that exists

    __device__ __forceinline__ RunVector(int number, int64_t start, int begin, int end)
        : from(number * 16 - static_cast<int>(start & 15)),
          holds(begin < end && from < end * kElementBytes && from + 16 > begin * kElementBytes) {}
};

/// Copies the vector at a byte of its tensor. The tensor may end before the vector does.
template <typename Tensor>
__device__ __forceinline__ void copy_vector(uint32_t to, const TensorBox<Tensor>& box, int64_t byte) {
    const int64_t left = box.tensor_bytes - byte;
    ptx::copy_async_part(to, box.tensor + byte, left < 16 ? static_cast<int>(left) : 16);
}

/// Copies runs of channels, one for each voxel, as they lie in memory: the vectors that hold an element of them. A
/// strip is a vector of the run of a column, in all rows.
template <typename Tensor>
__device__ __forceinline__ void copy_channels(uint32_t raw, const TensorBox<Tensor>& box) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kVectors = kStaged.run_vectors(), kStrips = kVectors * kStaged.box.w;
    const int64_t row_bytes = box.row_elements() * kElementBytes;
    for_each_strip<kStrips>([&](int strip, int first) {
        const int at_w = strip / kVectors, number = strip % kVectors;
        if (!box.has_column(at_w)) return;
        const int64_t column = box.column_element(at_w) * kElementBytes;
        for (int row = first; row < kStaged.box.d * kStaged.box.h; row += kSharers<kStrips>) {
            const int at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
            const int64_t start = column + box.row(at_d, at_h) * row_bytes;
            const RunVector vector(number, start, 0, box.channels);
            if (vector.holds && box.has_row(at_d, at_h))
                copy_vector(raw + (row * kStaged.box.w + at_w) * kStaged.run_bytes() + number * 16, box,
                            start + vector.from);
        }
    });
}

/// Copies runs of voxels, one for each row of the box and channel, as they lie in memory: the vectors that hold an
/// element of them. A strip is a vector of the run of a row, in all channels.
template <typename Tensor>
__device__ __forceinline__ void copy_rows(uint32_t raw, const TensorBox<Tensor>& box) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kVectors = kStaged.run_vectors(), kRows = kStaged.box.d * kStaged.box.h, kStrips = kVectors * kRows;
    const int begin = max(0, -box.w), end = min(kStaged.box.w, box.extent_w - box.w);
    const int64_t volume_bytes = box.volume() * kElementBytes;
    for_each_strip<kStrips>([&](int strip, int first) {
        const int row = strip / kVectors, number = strip % kVectors, at_h = row % kStaged.box.h,
                  at_d = row / kStaged.box.h;
        if (!box.has_row(at_d, at_h)) return;
        int64_t start = (box.first + box.voxel(at_d, at_h, 0)) * kElementBytes + first * volume_bytes;
        uint32_t to = raw + (first * kRows + row) * kStaged.run_bytes() + number * 16;
        RunVector vector(number, start, begin, end);
        for (int channel = first; channel < box.channels; channel += kSharers<kStrips>) {
            if (!Tensor::kVolumeAligned) vector = RunVector(number, start, begin, end);
            if (vector.holds) copy_vector(to, box, start + vector.from);
            start += kSharers<kStrips> * volume_bytes;
            to += kSharers<kStrips> * kRows * kStaged.run_bytes();
        }
    });
}

template <typename Tensor>
__device__ __forceinline__ void copy_runs(uint32_t raw, const TensorBox<Tensor>& box) {
    if constexpr (kChannelsLast) {
        copy_channels(raw, box);
    } else {
        copy_rows(raw, box);
    }
}

/// Starts the copies of the tile `number` of the split to its stages.
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
