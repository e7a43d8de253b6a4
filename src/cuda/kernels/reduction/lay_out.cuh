#pragma once

// From runs, as they were copied, to positions: voxels become rows of channels, with zeros where the tensor has none,
// and fp32 is rounded to tf32 or split in two parts of it.
#include "reduction/walk.cuh"

namespace {

using Bits = typename Unsigned<kElementBytes>::Type;

/// The words of a vector of channels as tensor cores take them: in fp32 the given part of each element.
__device__ __forceinline__ void to_words(uint32_t (&words)[4], const Bits (&bits)[kVectorElements], int part) {
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

    uint32_t at;     // the byte of shared memory of channel 0, if its run began with a vector
    uint32_t start;  // the element of the tensor that the run begins with; its low bits say where in a vector that is
    uint32_t volume; // from a channel to the next
    int channels;    // that exist

    __device__ __forceinline__ RawVoxel(uint32_t raw, const TensorBox<Tensor>& box, int at_d, int at_h, int at_w)
        : volume(static_cast<uint32_t>(box.volume())),
          channels(box.has_row(at_d, at_h) && box.has_column(at_w) ? box.channels : 0) {
        const int row = at_d * kStaged.box.h + at_h;
        start = static_cast<uint32_t>(box.first);
        if (kChannelsLast) {
            start += static_cast<uint32_t>(box.voxel(at_d, at_h, at_w)) * TensorBox<Tensor>::kAllChannels;
            at = raw + (row * kStaged.box.w + at_w) * kStaged.run_bytes();
        } else {
            start += static_cast<uint32_t>(box.voxel(at_d, at_h, 0));
            at = raw + row * kStaged.run_bytes() + at_w * kElementBytes;
        }
    }

    __device__ __forceinline__ uint32_t address(int channel) const {
        // Whether the runs of all channels begin at the same place of a vector.
        constexpr bool kSameForAll = kChannelsLast || Tensor::kVolumeAligned;
        uint32_t shift = 0;
        if (!kStaged.aligned) shift = (kSameForAll ? start : start + channel * volume) * kElementBytes % 16;
        return at + shift + channel * (kChannelsLast ? kElementBytes : kRows * kStaged.run_bytes());
    }

    __device__ __forceinline__ void load_vector(Bits (&bits)[kVectorElements], int channel) const {
#pragma unroll
        for (int i = 0; i < kVectorElements; ++i) {
            ptx::load_shared(bits[i], address(channel + i));
            if (channel + (Tensor::kChannels % kVectorElements == 0 ? 0 : i) >= channels) bits[i] = 0;
        }
    }
};

/// How the threads of a CTA lay out a box: in rounds, of which each gives a thread one or two vectors of a voxel.
template <typename Tensor>
struct Rounds {
    static constexpr int kVectors = Tensor::kStaged.vectors(), kOwnVectors = kVectors % 2 == 0 ? 2 : 1;
    static constexpr int kOwners = kVectors / kOwnVectors, kVoxels = Tensor::kStaged.box.voxels();
    static constexpr int kCount = (kOwners * kVoxels + kThreads - 1) / kThreads;
};

/// Lays out a part of a box: what is the threads' in one round. Neighbouring threads load neighbours.
template <typename Tensor>
__device__ __forceinline__ void lay_out(uint32_t positions, uint32_t raw, const TensorBox<Tensor>& box, int round) {
    constexpr StagedTensor kStaged = Tensor::kStaged;
    using Own = Rounds<Tensor>;
    const int index = round * kThreads + threadIdx.x;
    if (index >= Own::kOwners * Own::kVoxels) return;
    const int owner = kChannelsLast ? index % Own::kOwners : index / Own::kVoxels;
    const int voxel = kChannelsLast ? index / Own::kOwners : index % Own::kVoxels;
    const int at_w = voxel % kStaged.box.w, row = voxel / kStaged.box.w, at_h = row % kStaged.box.h,
              at_d = row / kStaged.box.h;
    const RawVoxel<Tensor> from(raw, box, at_d, at_h, at_w);
    const uint32_t to = positions + kStaged.box.position(at_d, at_h, at_w) * kStaged.position_bytes();
#pragma unroll
    for (int i = 0; i < Own::kOwnVectors; ++i) {
        const int vector = owner * Own::kOwnVectors + i;
        Bits bits[kVectorElements];
        from.load_vector(bits, vector * kVectorElements);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            uint32_t words[4];
            to_words(words, bits, part);
            ptx::store_shared(to + part * kStaged.part_bytes() + vector * 16, words);
        }
    }
}

// The rounds of a tile, src's and then grad_dst's. There are none where positions are copied.
constexpr int kTileRounds = kCopiesPositions ? 0 : Rounds<Src>::kCount + Rounds<Dst>::kCount;

__device__ __forceinline__ void lay_out_round(const Tile& tile, uint32_t shared_begin, int64_t number, int round) {
    if (round < Rounds<Src>::kCount) {
        lay_out<Src>(src_stage(shared_begin, number), raw_src_stage(shared_begin, number), tile.src, round);
    } else {
        lay_out<Dst>(dst_stage(shared_begin, number), raw_dst_stage(shared_begin, number), tile.dst,
                     round - Rounds<Src>::kCount);
    }
}

/// Fills the table of what meets: for each voxel of a box of src, in bytes, the position of grad_dst that it meets
/// through the first tap of the block.
__device__ __forceinline__ void fill_met_table(uint32_t shared_begin) {
    for (int voxel = threadIdx.x; voxel < kBoxSteps * kStepVoxels; voxel += kThreads) {
        const int w = voxel % kBoxW, h = voxel / kBoxW % kBoxH, d = voxel / kBoxW / kBoxH;
        const int met = voxel < kBoxVoxels ? Dst::kBox.position(d * kStrideD, h * kStrideH, 0) + w : 0;
        ptx::store_shared(shared_begin + voxel * 4, static_cast<uint32_t>(met * Dst::kStaged.position_bytes()));
    }
}

/// Puts zeros behind the last voxel of src in both stages, where the last k step reads more than the box has.
__device__ __forceinline__ void clear_behind_box(uint32_t shared_begin) {
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
