#pragma once

// The products of a staged tile. The depth of a product is voxels, kStepVoxels in a k step.
#include "reduction/constants.cuh"

namespace {

/// Of a warp's rows and columns: rows g (values 0, 1) and g + 8 (2, 3) of each m16 tile, channels 2t and 2t + 1 of each
/// column, with g = lane / 4 and t = lane % 4.
struct Sums {
    float values[kWarpRows][kWarpColumns][4];
};

/// A column of this warp. Warps that share the columns may have more of them than there are; these have no tap.
struct Column {
    int tap, channel; // of the block and of the tile

    __device__ __forceinline__ explicit Column(int index) {
        const int column = threadIdx.x / 32 / kRowWarps * kWarpColumns + index;
        tap = column < kAllColumns ? column / kColumnTiles : -1;
        channel = column % kColumnTiles * 8;
    }
    __device__ __forceinline__ int tap_d() const { return tap / (kBlockTapsH * kBlockTapsW); }
    __device__ __forceinline__ int tap_h() const { return tap / kBlockTapsW % kBlockTapsH; }
    __device__ __forceinline__ int tap_w() const { return tap % kBlockTapsW; }
    /// Bytes to it from where a voxel meets grad_dst through the first tap.
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

/// Of one k step: what a thread has of the warp's rows, and of a column.
using RowFragments = uint32_t[kParts][kWarpRows][4];
using ColumnFragments = uint32_t[kParts][2];

/// A column of all rows.
__device__ __forceinline__ void multiply_column(Sums& sums, int column, const RowFragments& a,
                                                const ColumnFragments& b) {
#pragma unroll
    for (int m = 0; m < kWarpRows; ++m) multiply_fragments(sums.values[m][column], a[0][m], b[0], Storage{});
}

/// The same in parts, of a few k steps: low by high and high by low, then high by high. Tensor cores cut off what a sum
/// has no room for, which is more than the parts leave out. So the sum of these steps begins with the products that are
/// small, where nothing is lost, and is added to the others' by itself, rounded.
template <int kSteps>
__device__ __forceinline__ void multiply_parts(Sums& sums, int column, const RowFragments (&a)[kSteps],
                                               const ColumnFragments (&b)[kSteps]) {
#pragma unroll
    for (int m = 0; m < kWarpRows; ++m) {
        float sum[4] = {};
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            multiply_fragments(sum, a[step][1][m], b[step][0], Storage{});
            multiply_fragments(sum, a[step][0][m], b[step][1], Storage{});
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) multiply_fragments(sum, a[step][0][m], b[step][0], Storage{});
#pragma unroll
        for (int i = 0; i < 4; ++i) sums.values[m][column][i] += sum[i];
    }
}

/// How a thread of 16-bit elements reads: channels of a voxel are neighbours, and ldmatrix turns 8 voxels of 8 channels
/// around while it loads them. Two columns come at once, from the halves of the lanes.
struct PairReader {
    static constexpr int kOffsets = (kWarpColumns + 1) / 2;
    uint32_t src, table; // src from where a stage begins
    uint32_t offsets[kOffsets];

    __device__ __forceinline__ explicit PairReader(uint32_t shared_begin) {
        const int lane = threadIdx.x % 32;
        src = (lane % 8 + lane / 16 * 8) * Src::kStaged.position_bytes() +
              (row_warp() * kWarpRows * 16 + lane / 8 % 2 * 8) * kElementBytes;
        table = shared_begin + lane % 16 * 4;
#pragma unroll
        for (int i = 0; i < kOffsets; ++i) {
            const int column = 2 * i + lane / 16;
            offsets[i] = Column(column < kWarpColumns ? column : 2 * i).offset();
        }
    }

    template <int kSteps>
    __device__ __forceinline__ void multiply_steps(Sums& sums, uint32_t stage, int step) const {
        static_assert(kSteps == 1);
        RowFragments a;
#pragma unroll
        for (int m = 0; m < kWarpRows; ++m)
            ptx::load_matrices_transposed(a[0][m], stage + src + step * (kStepVoxels * Src::kStaged.position_bytes()) +
                                                       m * 16 * kElementBytes);
        const uint32_t met = stage + Src::kStaged.bytes() + ptx::load_shared(table + step * (kStepVoxels * 4));
#pragma unroll
        for (int i = 0; i < kOffsets; ++i) {
            uint32_t pair[4];
            ptx::load_matrices_transposed(pair, met + offsets[i]);
            const ColumnFragments first = {{pair[0], pair[1]}}, second = {{pair[2], pair[3]}};
            multiply_column(sums, 2 * i, a, first);
            if (2 * i + 1 < kWarpColumns) multiply_column(sums, 2 * i + 1, a, second);
        }
    }
};

/// How a thread of fp32 reads: word by word, channel g at voxels t and t + 4 of a k step.
struct WordReader {
    uint32_t src, dst, table; // src and dst from where a stage begins
    uint32_t offsets[kWarpColumns];

    __device__ __forceinline__ explicit WordReader(uint32_t shared_begin) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        src = t * Src::kStaged.position_bytes() + (row_warp() * kWarpRows * 16 + g) * 4;
        dst = Src::kStaged.bytes() + g * 4;
        table = shared_begin + t * 4;
#pragma unroll
        for (int i = 0; i < kWarpColumns; ++i) offsets[i] = Column(i).offset();
    }

    __device__ __forceinline__ void load_rows(RowFragments& a, uint32_t stage, int step) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int m = 0; m < kWarpRows; ++m)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    a[part][m][i] = ptx::load_shared(stage + src + part * Src::kStaged.part_bytes() +
                                                     (step * kStepVoxels + i / 2 * 4) * Src::kStaged.position_bytes() +
                                                     (m * 16 + i % 2 * 8) * 4);
    }

    /// Of a column, from where its voxels t and t + 4 meet grad_dst.
    __device__ __forceinline__ void load_column(ColumnFragments& b, const uint32_t (&met)[2], int column) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                b[part][i] = ptx::load_shared(met[i] + offsets[column] + part * Dst::kStaged.part_bytes());
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
        for (int column = 0; column < kWarpColumns; ++column) {
            ColumnFragments b[kSteps];
#pragma unroll
            for (int step = 0; step < kSteps; ++step) load_column(b[step], met[step], column);
            if constexpr (kParts == 1) {
                multiply_column(sums, column, a[0], b[0]);
            } else {
                multiply_parts(sums, column, a, b);
            }
        }
    }
};

using Reader = Select<kElementBytes == 4, WordReader, PairReader>;

/// Adds the products of kSummedSteps k steps from `step` on, fewer at the end of a tile.
__device__ __forceinline__ void multiply_steps(Sums& sums, const Reader& reader, uint32_t stage, int step) {
    constexpr int kLast = kBoxSteps % kSummedSteps;
    if constexpr (kLast > 0) {
        if (step + kSummedSteps > kBoxSteps) return reader.template multiply_steps<kLast>(sums, stage, step);
    }
    reader.template multiply_steps<kSummedSteps>(sums, stage, step);
}

} // namespace
