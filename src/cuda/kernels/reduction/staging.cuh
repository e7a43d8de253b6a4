#pragma once

// From global memory to shared memory. Runs of neighbours are copied in 16-byte pieces, aligned as memory is, wherever
// a run begins and ends; what they hold is then laid out by position, with zeros where the tensor has nothing, rounded
// to what tensor cores take.
#include "reduction/constants.cuh"

namespace {

/// Where the box of an operand lies in its tensor. Its first voxel may be outside.
struct Place {
    const unsigned char* tensor;
    int64_t first; // the element at voxel 0 of the tile's first channel in this image
    int channels;  // of the tile that exist
    int d, h, w;   // the first voxel
    int extent_d, extent_h, extent_w;

    /// A voxel of the box, counted from voxel 0 of the tensor.
    __device__ __forceinline__ int64_t voxel(int at_d, int at_h, int at_w) const {
        return (int64_t{d + at_d} * extent_h + (h + at_h)) * extent_w + (w + at_w);
    }
    __device__ __forceinline__ int64_t volume() const { return int64_t{extent_d} * extent_h * extent_w; }
    __device__ __forceinline__ bool has_row(int at_d, int at_h) const {
        return static_cast<unsigned>(d + at_d) < static_cast<unsigned>(extent_d) &&
               static_cast<unsigned>(h + at_h) < static_cast<unsigned>(extent_h);
    }
    __device__ __forceinline__ bool has_column(int at_w) const {
        return static_cast<unsigned>(w + at_w) < static_cast<unsigned>(extent_w);
    }
};

/// A run: the element that it begins with, and which of its elements exist.
struct Run {
    int64_t start;
    int begin, end;
};

template <typename Tensor>
__device__ __forceinline__ Run run_of(const Place& place, int index) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    if constexpr (kChannelsLast) {
        const int at_w = index % kStaged.box.w, row = index / kStaged.box.w, at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
        const bool exists = place.has_row(at_d, at_h) && place.has_column(at_w);
        return {place.first + place.voxel(at_d, at_h, at_w) * Tensor::kAllChannels, 0, exists ? place.channels : 0};
    } else {
        const int at_h = index % kStaged.box.h, slice = index / kStaged.box.h, at_d = slice % kStaged.box.d,
                  channel = slice / kStaged.box.d;
        const bool exists = place.has_row(at_d, at_h) && channel < place.channels;
        return {place.first + channel * place.volume() + place.voxel(at_d, at_h, 0), max(0, -place.w),
                exists ? min(kStaged.box.w, place.extent_w - place.w) : 0};
    }
}

/// Starts the copies of all runs: of the pieces that hold an element that exists.
template <typename Tensor>
__device__ __forceinline__ void copy_runs(uint32_t raw, const Place& place) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    for (int index = threadIdx.x; index < kStaged.runs() * kStaged.run_pieces(); index += kThreads) {
        const int piece = index % kStaged.run_pieces(), number = index / kStaged.run_pieces();
        const Run run = run_of<Tensor>(place, number);
        const int64_t start = run.start * kElementBytes;
        const int from = piece * 16 - static_cast<int>(start & 15); // bytes from the run's begin to the piece's
        const bool holds_some = from < run.end * kElementBytes && from + 16 > run.begin * kElementBytes;
        if (run.begin < run.end && holds_some)
            ptx::copy_async(raw + number * kStaged.run_bytes() + piece * 16, place.tensor + start + from);
    }
}

using Bits = typename Unsigned<kElementBytes>::Type;

/// The words of a piece that tensor cores take as this part of it.
__device__ __forceinline__ void to_words(uint32_t (&words)[4], const Bits (&bits)[kPieceElements], int part) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (kElementBytes == 2) {
            words[i] = bits[2 * i] | static_cast<uint32_t>(bits[2 * i + 1]) << 16;
        } else {
            words[i] = tf32_part(__uint_as_float(bits[i]), part);
        }
    }
}

/// Neighbouring channels of a voxel from its run or, where runs are rows, from those of all these channels.
template <typename Tensor>
__device__ __forceinline__ void load_piece(Bits (&bits)[kPieceElements], uint32_t raw, const Place& place, int at_d,
                                           int at_h, int at_w, int channel) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    // Where a run begins within its first piece needs the low bits of its start alone.
    const auto start = static_cast<uint32_t>(place.first), voxel = static_cast<uint32_t>(place.voxel(at_d, at_h, 0)),
               volume = static_cast<uint32_t>(place.volume());
    const bool exists = place.has_row(at_d, at_h) && place.has_column(at_w);
#pragma unroll
    for (int i = 0; i < kPieceElements; ++i) {
        uint32_t address;
        if constexpr (kChannelsLast) {
            const uint32_t shift = kRunsAligned<Tensor> ? 0 : (start + (voxel + at_w) * Tensor::kAllChannels) * kElementBytes % 16;
            address = raw + ((at_d * kStaged.box.h + at_h) * kStaged.box.w + at_w) * kStaged.run_bytes() + shift +
                      (channel + i) * kElementBytes;
        } else {
            const uint32_t shift = (start + (channel + i) * volume + voxel) * kElementBytes % 16;
            address = raw + (((channel + i) * kStaged.box.d + at_d) * kStaged.box.h + at_h) * kStaged.run_bytes() + shift +
                      at_w * kElementBytes;
        }
        ptx::load_shared(bits[i], address);
        if (!exists || channel + i >= place.channels) bits[i] = 0;
    }
}

/// Lays all runs out by position. Neighbouring threads have neighbours in memory.
template <typename Tensor>
__device__ __forceinline__ void lay_out(uint32_t positions, uint32_t raw, const Place& place) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    constexpr int kPieces = kStaged.channels / kPieceElements, kVoxels = kStaged.box.voxels();
    for (int index = threadIdx.x; index < kPieces * kVoxels; index += kThreads) {
        const int piece = kChannelsLast ? index % kPieces : index / kVoxels;
        const int voxel = kChannelsLast ? index / kPieces : index % kVoxels;
        const int at_w = voxel % kStaged.box.w, row = voxel / kStaged.box.w, at_h = row % kStaged.box.h, at_d = row / kStaged.box.h;
        Bits bits[kPieceElements];
        load_piece<Tensor>(bits, raw, place, at_d, at_h, at_w, piece * kPieceElements);
        const uint32_t to = positions + kStaged.box.position(at_d, at_h, at_w) * kStaged.position_bytes() + piece * 16;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            uint32_t words[4];
            to_words(words, bits, part);
            ptx::store_shared(to + part * kStaged.part_bytes(), words);
        }
    }
}

/// What stays the same for all tiles: the position of grad_dst, in bytes, that each voxel of a box meets through the
/// first tap of a block, and zeros of src behind the last voxel, where the last k step has more.
__device__ __forceinline__ void prepare_shared(uint32_t shared_begin) {
    for (int voxel = threadIdx.x; voxel < kBoxSteps * kStepVoxels; voxel += kThreads) {
        const int w = voxel % kBoxW, h = voxel / kBoxW % kBoxH, d = voxel / kBoxW / kBoxH;
        const int met = voxel < kBoxVoxels ? Dst::kStaged.box.position(d * kStrideD, h * kStrideH, 0) + w : 0;
        ptx::store_shared(shared_begin + voxel * 4, static_cast<uint32_t>(met * Dst::kStaged.position_bytes()));
    }
    constexpr int kWords = Src::kStaged.zeros * Src::kStaged.position_bytes() / 4;
    for (int index = threadIdx.x; index < kParts * kWords; index += kThreads)
        ptx::store_shared(shared_begin + kSrcAt + index / max(kWords, 1) * Src::kStaged.part_bytes() +
                              kBoxVoxels * Src::kStaged.position_bytes() + index % max(kWords, 1) * 4,
                          uint32_t{0});
}

} // namespace
