#pragma once

// The consumers: each warpgroup has some taps of the block, and a product of 64 rows for each of them in every k step.
// Both operands stay in shared memory, so that nothing but the descriptors changes from a product to the next.
#include "outer/constants.cuh"

namespace {

/// The accumulators of a thread. For each tap it has rows g and g + 8 of its warp's 16, and of each 8 columns the
/// columns 2t and 2t + 1, with g = lane / 4 and t = lane % 4.
struct Sums {
    float values[kWarpgroupTaps][kTileColumns / 2];
};

/// The number of this thread's first tap in the tables of all blocks. The compiler has to know that all lanes have the
/// same one, or the assembler serialises the products.
__device__ __forceinline__ int first_tap(const Item& item) {
    const int warpgroup = __shfl_sync(0xFFFFFFFF, static_cast<int>(threadIdx.x) / 128, 0);
    return (item.block * kWarpgroups + warpgroup) * kWarpgroupTaps;
}

// A k step is 16 voxels of src: neighbours in a row, or 8 of two rows each where a row has 8. A line is a row, or such
// a pair of rows.
constexpr bool kPairsRows = kBoxW == 8;
constexpr int kLineRows = kPairsRows ? 2 : 1, kLineSteps = kPairsRows ? 1 : kBoxW / 16;
constexpr int kLines = kBoxH / kLineRows;
static_assert(kBoxH % kLineRows == 0 && (kPairsRows || kBoxW % 16 == 0), "a box has whole k steps");

/// Describes an operand whose second eight voxels are `voxels` behind its first ones, at address 0. With swizzle the
/// two distances change places.
constexpr uint64_t operand(const OuterPlane& plane, int voxels) {
    const uint64_t atom = static_cast<uint64_t>(plane.atom_bytes() / 16);
    const uint64_t eight = static_cast<uint64_t>(voxels * plane.voxel_bytes() / 16);
    const uint64_t swizzle = plane.voxel_bytes() == 128 ? 1 : plane.voxel_bytes() == 64 ? 2 : 3;
    return plane.swizzled ? atom << 16 | eight << 32 | swizzle << 62 : eight << 16 | atom << 32;
}
constexpr uint64_t kSrcOperand = operand(kSrc, 8), kDstOperand = operand(kDst, kPairsRows ? kMetW : 8);

/// Bytes from the first plane of grad_dst of a stage to the voxel that the first voxel of a box meets through each tap.
struct TapOffsets {
    uint32_t at[kWarpgroupTaps];

    __device__ __forceinline__ explicit TapOffsets(int first_tap) {
#pragma unroll
        for (int tap = 0; tap < kWarpgroupTaps; ++tap)
            at[tap] = kTapPlane[first_tap + tap] * kDst.bytes() + kTapVoxel[first_tap + tap] * kDst.voxel_bytes();
    }
};

/// Multiplies the box of a stage, whose planes begin at the bytes `src` and `dst` of shared memory.
__device__ __forceinline__ void multiply_box(Sums& sums, const TapOffsets& taps, uint32_t src, uint32_t dst) {
#pragma unroll 1
    for (int line = 0; line < kLines; ++line) {
#pragma unroll
        for (int step = 0; step < kLineSteps; ++step) {
            const uint64_t fixed = kSrcOperand + ((src + step * (16 * kSrc.voxel_bytes())) >> 4);
#pragma unroll
            for (int tap = 0; tap < kWarpgroupTaps; ++tap) {
                const uint64_t met = kDstOperand + ((dst + taps.at[tap] + step * (16 * kDst.voxel_bytes())) >> 4);
                multiply(sums.values[tap], kRowsAreDst ? met : fixed, kRowsAreDst ? fixed : met);
            }
        }
        src += kLineRows * kBoxW * kSrc.voxel_bytes();
        dst += kLineRows * kMetW * kDst.voxel_bytes();
    }
}

/// The products of a box are one wgmma group. While it is multiplied, the stage before is released.
__device__ __forceinline__ void consume(const Item& item, const Pipeline& pipe, Sums& sums) {
    const TapOffsets taps(first_tap(item));
    StageCount<kStages> at;
    int before = 0;
#pragma unroll 1
    for (int passed = 0; passed < item.boxes; ++passed, before = at.stage, at.advance()) {
        ptx::barrier_wait(pipe.full(at.stage), at.parity);
        ptx::wgmma_fence();
        multiply_box(sums, taps, pipe.src(at.stage), pipe.dst(at.stage));
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        __syncwarp();
        if (passed > 0 && threadIdx.x % 32 == 0) ptx::barrier_arrive(pipe.empty(before));
    }
    ptx::wgmma_wait<0>();
}

} // namespace
