#pragma once

// From runs, as they were copied, to positions: zeros where the tensor has nothing, rounded to what tensor cores take.
#include "reduction/place.cuh"

namespace {

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

/// The channels of a voxel in the runs of a box.
template <typename Tensor>
struct RawVoxel {
    static constexpr StagedTensor kStaged = Tensor::kStaged;
    static constexpr int kRows = kStaged.box.d * kStaged.box.h;

    uint32_t at;    // in shared memory, of channel 0, if its run began with a piece
    uint32_t start; // the element that this run begins with: where it does so within its first piece needs the low bits
    uint32_t volume; // from a channel to the next
    int channels;    // that exist

    __device__ __forceinline__ RawVoxel(uint32_t raw, const Place<Tensor>& place, int at_d, int at_h, int at_w)
        : volume(static_cast<uint32_t>(place.volume())),
          channels(place.has_row(at_d, at_h) && place.has_column(at_w) ? place.channels : 0) {
        const int row = at_d * kStaged.box.h + at_h;
        start = static_cast<uint32_t>(place.first);
        if (kChannelsLast) {
            start += static_cast<uint32_t>(place.voxel(at_d, at_h, at_w)) * Place<Tensor>::kAllChannels;
            at = raw + (row * kStaged.box.w + at_w) * kStaged.run_bytes();
        } else {
            start += static_cast<uint32_t>(place.voxel(at_d, at_h, 0));
            at = raw + row * kStaged.run_bytes() + at_w * kElementBytes;
        }
    }

    __device__ __forceinline__ uint32_t address(int channel) const {
        constexpr bool kSameForAll = kChannelsLast || Tensor::kVolumeAligned; // channels begin alike within pieces
        uint32_t shift = 0;
        if (!kStaged.aligned) shift = (kSameForAll ? start : start + channel * volume) * kElementBytes % 16;
        return at + shift + channel * (kChannelsLast ? kElementBytes : kRows * kStaged.run_bytes());
    }

    __device__ __forceinline__ void load_piece(Bits (&bits)[kPieceElements], int channel) const {
#pragma unroll
        for (int i = 0; i < kPieceElements; ++i) {
            ptx::load_shared(bits[i], address(channel + i));
            if (channel + (Tensor::kChannels % kPieceElements == 0 ? 0 : i) >= channels) bits[i] = 0;
        }
    }
};

/// Up to two pieces of each voxel are a thread's at a time.
template <typename Tensor>
struct Rounds {
    static constexpr int kPieces = Tensor::kStaged.pieces(), kOwnPieces = kPieces % 2 == 0 ? 2 : 1;
    static constexpr int kOwners = kPieces / kOwnPieces, kVoxels = Tensor::kStaged.box.voxels();
    static constexpr int kCount = (kOwners * kVoxels + kThreads - 1) / kThreads;
};

/// Lays out what the threads have in one round. Neighbouring threads have neighbours in memory.
template <typename Tensor>
__device__ __forceinline__ void lay_out(uint32_t positions, uint32_t raw, const Place<Tensor>& place, int round) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    using Own = Rounds<Tensor>;
    const int index = round * kThreads + threadIdx.x;
    if (index >= Own::kOwners * Own::kVoxels) return;
    const int owner = kChannelsLast ? index % Own::kOwners : index / Own::kVoxels;
    const int voxel = kChannelsLast ? index / Own::kOwners : index % Own::kVoxels;
    const int at_w = voxel % kStaged.box.w, row = voxel / kStaged.box.w, at_h = row % kStaged.box.h,
              at_d = row / kStaged.box.h;
    const RawVoxel<Tensor> from(raw, place, at_d, at_h, at_w);
    const uint32_t to = positions + kStaged.box.position(at_d, at_h, at_w) * kStaged.position_bytes();
#pragma unroll
    for (int i = 0; i < Own::kOwnPieces; ++i) {
        const int piece = owner * Own::kOwnPieces + i;
        Bits bits[kPieceElements];
        from.load_piece(bits, piece * kPieceElements);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            uint32_t words[4];
            to_words(words, bits, part);
            ptx::store_shared(to + part * kStaged.part_bytes() + piece * 16, words);
        }
    }
}

// Both tensors of a tile; none where positions are copied.
constexpr int kTileRounds = kCopiesPositions ? 0 : Rounds<Src>::kCount + Rounds<Dst>::kCount;

__device__ __forceinline__ void lay_out_round(const Tile& tile, uint32_t shared_begin, int64_t number, int round) {
    if (round < Rounds<Src>::kCount) {
        lay_out<Src>(src_stage(shared_begin, number), raw_src_stage(shared_begin, number), tile.src, round);
    } else {
        lay_out<Dst>(dst_stage(shared_begin, number), raw_dst_stage(shared_begin, number), tile.dst,
                     round - Rounds<Src>::kCount);
    }
}

/// What stays the same for all tiles: the position of grad_dst, in bytes, that each voxel of a box meets through the
/// first tap of a block, and zeros of src behind the last voxel, where the last k step has more.
__device__ __forceinline__ void prepare_shared(uint32_t shared_begin) {
    for (int voxel = threadIdx.x; voxel < kBoxSteps * kStepVoxels; voxel += kThreads) {
        const int w = voxel % kBoxW, h = voxel / kBoxW % kBoxH, d = voxel / kBoxW / kBoxH;
        const int met = voxel < kBoxVoxels ? Dst::kBox.position(d * kStrideD, h * kStrideH, 0) + w : 0;
        ptx::store_shared(shared_begin + voxel * 4, static_cast<uint32_t>(met * Dst::kStaged.position_bytes()));
    }
    constexpr int kBytes = Src::kStaged.position_bytes(), kWords = Src::kStaged.zeros * kBytes / 4;
    if constexpr (kWords > 0) {
        for (int stage = 0; stage < 2; ++stage)
            for (int part = 0; part < kParts; ++part)
                for (int word = threadIdx.x; word < kWords; word += kThreads)
                    ptx::store_shared(src_stage(shared_begin, stage) + part * Src::kStaged.part_bytes() +
                                          kBoxVoxels * kBytes + word * 4,
                                      uint32_t{0});
    }
}

} // namespace
