#pragma once

// The products of a tap group by wgmma (sm_90a). wgmmas<Group>(), which issues those of a k step, is text that the host
// writes (tensorcore/wgmma_source.cpp).
//
// In the gathered form they add to registers that only the assembler knows. clear_accumulators() clears these before
// the first product, and read_accumulators() makes values of them when all products are done.
#include "multiply/accumulators.cuh"
#include "schedule/positions.cuh"

namespace {

constexpr ptx::Swizzle kSwizzle = !kSwizzled    ? ptx::Swizzle::none
                                  : kSteps == 4 ? ptx::Swizzle::bytes128
                                  : kSteps == 2 ? ptx::Swizzle::bytes64
                                                : ptx::Swizzle::bytes32;

/// The descriptors of the input, one for each shifted row (schedule/positions.cuh). Their unit is 16 bytes.
struct ShiftedInput {
    uint64_t at[kShiftedRows];

    __device__ __forceinline__ ShiftedInput(const Geometry& geometry, uint64_t in) {
#pragma unroll
        for (int i = 0; i < kShiftedRows; ++i) at[i] = in + shifted_row(geometry, i) * (kPositionBytes / 16);
    }
    __device__ __forceinline__ ShiftedInput operator+(int distance) const {
        ShiftedInput moved = *this;
#pragma unroll
        for (uint64_t& descriptor : moved.at) descriptor += distance;
        return moved;
    }
};

/// Multiplies the m64 tiles from `M` on in a k step. `in` and `weights` are descriptors. Where fp32 is split, `adds`
/// says whether the first product of an accumulator adds to it or replaces it.
template <int Group, int M>
__device__ __forceinline__ void multiply_tiles(Accumulators& acc, const ShiftedInput& in, uint64_t weights, int adds) {
    if constexpr (M < kMTiles) {
        wgmmas<Group>(acc.values[M], in + operand_position(threadIdx.x, M) * (kPositionBytes / 16), weights, adds);
        multiply_tiles<Group, M + 1>(acc, in, weights, adds);
    }
}

template <int Group>
__device__ __forceinline__ void multiply_by_wgmma(Accumulators& acc, const Geometry& geometry, uint32_t in,
                                                  uint32_t weights) {
    const ShiftedInput a(geometry, ptx::wgmma_descriptor(in, kPlaneBytes, kCoreStride * kPositionBytes, kSwizzle));
    const uint64_t b = ptx::wgmma_descriptor(weights, 128, eight_rows_stride(Group), ptx::Swizzle::none);
#pragma unroll 1
    for (int step = 0; step < kSummedSteps; ++step) {
        ptx::wgmma_fence();
        const ShiftedInput step_in = a + step * (kStepBytes / 16);
        const uint64_t step_weights = b + step * (weight_step_bytes(Group) / 16);
        if constexpr (kGathered) {
            wgmmas<Group>(acc, step_in, step_weights);
            ptx::wgmma_commit();
        } else {
            multiply_tiles<Group, 0>(acc, step_in, step_weights, step);
        }
    }
    if constexpr (!kGathered) ptx::wgmma_commit();
}

} // namespace
