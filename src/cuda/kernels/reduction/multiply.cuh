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

using RowFragments = uint32_t[kParts][kWarpRows][4];

/// A column of all rows. In parts: high by high, high by low and low by high.
__device__ __forceinline__ void multiply_column(Sums& sums, int column, const RowFragments& a,
                                                const uint32_t (&b)[kParts][2]) {
#pragma unroll
    for (int m = 0; m < kWarpRows; ++m) {
        multiply_fragments(sums.values[m][column], a[0][m], b[0], Storage{});
        if constexpr (kParts == 2) {
            multiply_fragments(sums.values[m][column], a[0][m], b[1], Storage{});
            multiply_fragments(sums.values[m][column], a[1][m], b[0], Storage{});
        }
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

    __device__ __forceinline__ void multiply_step(Sums& sums, uint32_t stage, int step) const {
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
            const uint32_t first[kParts][2] = {{pair[0], pair[1]}}, second[kParts][2] = {{pair[2], pair[3]}};
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

    __device__ __forceinline__ void multiply_step(Sums& sums, uint32_t stage, int step) const {
        RowFragments a;
        load_rows(a, stage, step);
        const uint32_t met[2] = {stage + dst + ptx::load_shared(table + step * (kStepVoxels * 4)),
                                 stage + dst + ptx::load_shared(table + step * (kStepVoxels * 4) + 16)};
#pragma unroll
        for (int column = 0; column < kWarpColumns; ++column) {
            uint32_t b[kParts][2];
#pragma unroll
            for (int part = 0; part < kParts; ++part)
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    b[part][i] = ptx::load_shared(met[i] + offsets[column] + part * Dst::kStaged.part_bytes());
            multiply_column(sums, column, a, b);
        }
    }
};

template <int kBytes>
struct ReaderOf {
    using Type = PairReader;
};
template <>
struct ReaderOf<4> {
    using Type = WordReader;
};
using Reader = typename ReaderOf<kElementBytes>::Type;

/// Where fp32 is split, kSummedSteps k steps are summed by themselves and then added, rounded: tensor cores cut off
/// what a sum has no room for. Else there is nothing but the sums.
struct Chain {
    Sums sums = {};

    __device__ __forceinline__ void add_to(Sums& totals) {
#pragma unroll
        for (int m = 0; m < kWarpRows; ++m)
#pragma unroll
            for (int column = 0; column < kWarpColumns; ++column)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    totals.values[m][column][i] += sums.values[m][column][i];
                    sums.values[m][column][i] = 0;
                }
    }
};

/// Adds the products of one k step.
__device__ __forceinline__ void multiply_step(Sums& totals, Chain& chain, const Reader& reader, uint32_t stage,
                                              int step) {
    if constexpr (kParts == 1) {
        reader.multiply_step(totals, stage, step);
    } else {
        reader.multiply_step(chain.sums, stage, step);
        if (step % kSummedSteps == kSummedSteps - 1 || step == kBoxSteps - 1) chain.add_to(totals);
    }
}

} // namespace
