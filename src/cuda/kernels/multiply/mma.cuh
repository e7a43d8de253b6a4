#pragma once

// The products of a tap group by mma.sync.
#include "multiply/accumulators.cuh"
#include "schedule/positions.cuh"

namespace {

/// Loads the fragments of a warp's 16 rows of each m64 tile, at one shift of the plane. ldmatrix takes core matrices as
/// they lie.
__device__ __forceinline__ void load_rows(uint32_t (&a)[kMTiles][4], uint32_t in, int shift) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
        ptx::load_matrices(a[m], in + (operand_position(threadIdx.x, m) + row_offset(row) + shift) * 16 +
                                     lane / 16 * kPlaneBytes);
}

/// Multiplies all m64 tiles with a block of 8 columns, whose accumulators begin with `first`.
__device__ __forceinline__ void multiply_block(Accumulators& acc, int first, const uint32_t (&a)[kMTiles][4],
                                               const uint32_t (&b)[2]) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
        float c[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] = acc.values[m][first + i];
        multiply_fragments(c, a[m], b);
#pragma unroll
        for (int i = 0; i < 4; ++i) acc.values[m][first + i] = c[i];
    }
}

/// Bytes from where a product's weights begin to those of a block of 8 columns.
template <int Group>
__device__ __forceinline__ int block_bytes(int block) {
    if constexpr (!kRotatesCopies) return block * kEightRowsBytes;
    return block / (kColumns / 8) * kTapBytes + block % (kColumns / 8) * eight_rows_stride(Group);
}

/// Multiplies a product of a k step, two blocks of 8 columns at a time: their four core matrices are one load.
template <int Group, int Product>
__device__ __forceinline__ void multiply_product(Accumulators& acc, const Geometry& geometry, uint32_t in,
                                                 uint32_t weights) {
    constexpr int kBlocks = kProductCount[Product] * (kColumns / 8), kFirst = kProductFirst[Product] * (kColumns / 2);
    uint32_t a[kParts][kMTiles][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part)
        load_rows(a[part], in + part * kPartBytes, product_shift(geometry, Product));
#pragma unroll
    for (int block = 0; block < kBlocks; block += 2) {
        // The last block may have no neighbour, and is loaded twice.
        const int lane = threadIdx.x % (block + 1 < kBlocks ? 32 : 16);
        uint32_t b[kParts][4];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
            ptx::load_matrices(b[part], weights + part * (group_taps(Group) * kTapBytes) +
                                            block_bytes<Group>(block + lane / 16) + lane % 16 * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (block + i >= kBlocks) continue;
            const int first = kFirst + (block + i) * 4;
            const uint32_t high[2] = {b[0][2 * i], b[0][2 * i + 1]};
            multiply_block(acc, first, a[0], high);
            if constexpr (kParts == 2) {
                const uint32_t low[2] = {b[1][2 * i], b[1][2 * i + 1]};
                multiply_block(acc, first, a[0], low);
                multiply_block(acc, first, a[1], high);
            }
        }
    }
}

/// Multiplies the products of a tap group from `Product` on. As a loop they would be too much to be unrolled.
template <int Group, int Product>
__device__ __forceinline__ void multiply_products(Accumulators& acc, const Geometry& geometry, uint32_t in,
                                                  uint32_t weights) {
    if constexpr (Product < kGroupProduct[Group + 1]) {
        multiply_product<Group, Product>(acc, geometry, in,
                                         weights + (kProductTap[Product] - kGroupTap[Group]) * kTapBytes);
        multiply_products<Group, Product + 1>(acc, geometry, in, weights);
    }
}

template <int Group>
__device__ __forceinline__ void multiply_by_mma(Accumulators& acc, const Geometry& geometry, uint32_t in,
                                                uint32_t weights) {
#pragma unroll 1
    for (int step = 0; step < kSummedSteps; ++step) {
        multiply_products<Group, kGroupProduct[Group]>(acc, geometry, in + step * kStepBytes,
                                                       weights + step * weight_step_bytes(Group));
    }
}

} // namespace
