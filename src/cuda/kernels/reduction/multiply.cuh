#pragma once

// The products of a staged tile by mma.sync. Rows are channels of src, columns are channels of grad_dst at each tap,
// and the depth is voxels of the box of src, kStepVoxels in a k step. Where a voxel meets grad_dst through the first
// tap says a table; every other tap is a constant distance of bytes from there.
#include "reduction/constants.cuh"

namespace {

/// The accumulators of a thread. Of each product of its warp it has rows g (values 0 and 1) and g + 8 (2 and 3) and
/// columns 2t and 2t + 1, with g = lane / 4 and t = lane % 4.
struct Sums {
    float values[kWarpMTiles][kWarpNTiles][4];
};

/// An n8 tile of this warp: 8 channels at one tap. Warps may have more n8 tiles than there are; these have the tap -1.
struct NTile {
    int tap;     // of the block
    int channel; // the first one, of the CTA's tile of channels

    __device__ __forceinline__ explicit NTile(int index) {
        const int number = threadIdx.x / 32 / kRowWarps * kWarpNTiles + index;
        tap = number < kAllNTiles ? number / kTapNTiles : -1;
        channel = number % kTapNTiles * 8;
    }
    __device__ __forceinline__ int tap_d() const { return tap / (kBlockTapsH * kBlockTapsW); }
    __device__ __forceinline__ int tap_h() const { return tap / kBlockTapsW % kBlockTapsH; }
    __device__ __forceinline__ int tap_w() const { return tap % kBlockTapsW; }
    /// Bytes from where a voxel meets grad_dst through the first tap to where it does through this one.
    __device__ __forceinline__ uint32_t offset() const {
        if (tap < 0) return 0;
        return Dst::kStaged.box.position(tap_d() * kDilationD, tap_h() * kDilationH, tap_w() * kDilationW) *
                   Dst::kStaged.position_bytes() +
               channel * kElementBytes;
    }
};

__device__ __forceinline__ int row_warp() {
    return threadIdx.x / 32 % kRowWarps;
}

__device__ __forceinline__ void multiply_fragments(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                                   float) {
    ptx::mma_tf32(c, a, b);
}
__device__ __forceinline__ void multiply_fragments(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                                   Bf16) {
    ptx::mma_bf16(c, a, b);
}
__device__ __forceinline__ void multiply_fragments(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], F16) {
    ptx::mma_f16(c, a, b);
}

/// A thread's fragments of one k step: of all m16 tiles of its warp, and of an n8 tile.
using RowFragments = uint32_t[kParts][kWarpMTiles][4];
using ColumnFragments = uint32_t[kParts][2];

/// Multiplies an n8 tile with all m16 tiles.
__device__ __forceinline__ void multiply_n_tile(Sums& sums, int n_tile, const RowFragments& a,
                                                const ColumnFragments& b) {
#pragma unroll
    for (int m = 0; m < kWarpMTiles; ++m) multiply_fragments(sums.values[m][n_tile], a[0][m], b[0], Storage{});
}

/// Multiplies an n8 tile with all m16 tiles in split fp32, some k steps together: low by high and high by low, then
/// high by high. Tensor cores cut off what a sum has no room for, which is more than the parts leave out. So these
/// steps have a sum of their own, which begins with the products that are small, where nothing is lost, and is then
/// added, rounded.
template <int kSteps>
__device__ __forceinline__ void multiply_parts(Sums& sums, int n_tile, const RowFragments (&a)[kSteps],
                                               const ColumnFragments (&b)[kSteps]) {
#pragma unroll
    for (int m = 0; m < kWarpMTiles; ++m) {
        float sum[4] = {};
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            multiply_fragments(sum, a[step][1][m], b[step][0], Storage{});
            multiply_fragments(sum, a[step][0][m], b[step][1], Storage{});
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) multiply_fragments(sum, a[step][0][m], b[step][0], Storage{});
#pragma unroll
        for (int i = 0; i < 4; ++i) sums.values[m][n_tile][i] += sum[i];
    }
}

/// How a thread loads fragments of 16-bit elements. Channels of a voxel are neighbours, and ldmatrix transposes 8
/// voxels of 8 channels while it loads them. One ldmatrix loads two n8 tiles: half of the lanes have the addresses of
/// each.
struct PairReader {
    static constexpr int kOffsets = (kWarpNTiles + 1) / 2;
    uint32_t src;               // this lane's address in src, from where a stage begins
    uint32_t table;             // its entry of the table of what meets
    uint32_t offsets[kOffsets]; // of its n8 tile of each two, from where a voxel meets grad_dst

    __device__ __forceinline__ explicit PairReader(uint32_t shared_begin) {
        const int lane = threadIdx.x % 32;
        src = (lane % 8 + lane / 16 * 8) * Src::kStaged.position_bytes() +
              (row_warp() * kWarpMTiles * 16 + lane / 8 % 2 * 8) * kElementBytes;
        table = shared_begin + lane % 16 * 4;
#pragma unroll
        for (int i = 0; i < kOffsets; ++i) {
            const int n_tile = 2 * i + lane / 16;
            offsets[i] = NTile(n_tile < kWarpNTiles ? n_tile : 2 * i).offset();
        }
    }

    template <int kSteps>
    __device__ __forceinline__ void multiply_steps(Sums& sums, uint32_t stage, int step) const {
        static_assert(kSteps == 1);
        RowFragments a;
#pragma unroll
        for (int m = 0; m < kWarpMTiles; ++m)
            ptx::load_matrices_transposed(a[0][m], stage + src + step * (kStepVoxels * Src::kStaged.position_bytes()) +
                                                       m * 16 * kElementBytes);
        const uint32_t met = stage + Src::kStaged.bytes() + ptx::load_shared(table + step * (kStepVoxels * 4));
#pragma unroll
        for (int i = 0; i < kOffsets; ++i) {
            uint32_t pair[4];
            ptx::load_matrices_transposed(pair, met + offsets[i]);
            const ColumnFragments first = {{pair[0], pair[1]}}, second = {{pair[2], pair[3]}};
            multiply_n_tile(sums, 2 * i, a, first);
            if (2 * i + 1 < kWarpNTiles) multiply_n_tile(sums, 2 * i + 1, a, second);
        }
    }
};

/// How a thread loads fragments of fp32: word by word, channel g at voxels t and t + 4 of a k step.
struct WordReader {
    uint32_t src, dst;             // this thread's addresses in both tensors, from where a stage begins
    uint32_t table;                // its entry of the table of what meets
    uint32_t offsets[kWarpNTiles]; // of each n8 tile, from where a voxel meets grad_dst

    __device__ __forceinline__ explicit WordReader(uint32_t shared_begin) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        src = t * Src::kStaged.position_bytes() + (row_warp() * kWarpMTiles * 16 + g) * 4;
        dst = Src::kStaged.bytes() + g * 4;
        table = shared_begin + t * 4;
#pragma unroll
        for (int i = 0; i < kWarpNTiles; ++i) offsets[i] = NTile(i).offset();
    }

    __device__ __forceinline__ void load_rows(RowFragments& a, uint32_t stage, int step) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int m = 0; m < kWarpMTiles; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    a[part][m][i] = ptx::load_shared(stage + src + part * Src::kStaged.part_bytes() +
                                                     (step * kStepVoxels + i / 2 * 4) * Src::kStaged.position_bytes() +
                                                     (m * 16 + i % 2 * 8) * 4);
    }

    /// Loads an n8 tile. `met` is where voxels t and t + 4 meet grad_dst through the first tap.
    __device__ __forceinline__ void load_n_tile(ColumnFragments& b, const uint32_t (&met)[2], int n_tile) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                b[part][i] = ptx::load_shared(met[i] + offsets[n_tile] + part * Dst::kStaged.part_bytes());
    }

    template <int kSteps>
    __device__ __forceinline__ void multiply_steps(Sums& sums, uint32_t stage, int first) const {
        RowFragments a[kSteps];
        uint32_t met[kSteps][2];
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            load_rows(a[step], stage, first + step);
#pragma unroll
            for (int i = 0; i < 2; ++i)
                met[step][i] = stage + dst + ptx::load_shared(table + (first + step) * (kStepVoxels * 4) + i * 16);
        }
#pragma unroll
        for (int n_tile = 0; n_tile < kWarpNTiles; ++n_tile) {
            ColumnFragments b[kSteps];
#pragma unroll
            for (int step = 0; step < kSteps; ++step) load_n_tile(b[step], met[step], n_tile);
            if constexpr (kParts == 1) {
                multiply_n_tile(sums, n_tile, a[0], b[0]);
            } else {
                multiply_parts(sums, n_tile, a, b);
            }
        }
    }
};

using Reader = Select<kElementBytes == 4, WordReader, PairReader>;

/// Adds the products of kSummedSteps k steps from `step` on, or of fewer at the end of a tile.
__device__ __forceinline__ void multiply_steps(Sums& sums, const Reader& reader, uint32_t stage, int step) {
    constexpr int kLast = kBoxSteps % kSummedSteps;
    if constexpr (kLast > 0) {
        if (step + kSummedSteps > kBoxSteps) return reader.template multiply_steps<kLast>(sums, stage, step);
    }
    reader.template multiply_steps<kSummedSteps>(sums, stage, step);
}

} // namespace
