#pragma once

// The end of a split: a CTA adds what its threads have summed over different cells, in a fixed order through shared
// memory, and stores the partial sums of its channels.
#include "cells/grad_weight.cuh"

namespace {

// A row of shared memory has one sum of all cells, for a tap along D and a lane. As many sums are added at a time as
// fit into 16 KiB.
constexpr int kRows = kTapsD * kLanes; // of a sum
constexpr int kPitch = kCells | 1;     // odd, so that rows begin in different banks
constexpr int kShared = 16 * 1024 / (kRows * kPitch * static_cast<int>(sizeof(Compute)));
constexpr int kTogether = kShared < 1 ? 1 : kShared < kSums ? kShared : kSums;

__device__ __forceinline__ Compute sum_row(const Compute* row) {
    Compute sum = 0;
    for (int cell = 0; cell < kCells; ++cell) sum += row[cell];
    return sum;
}

/// Stores the sum `index` of a tap along D and a lane, which `row` has for each cell. The row of the next tap is kLanes
/// rows behind.
__device__ __forceinline__ void store_partial(Compute* partials, int64_t block, int index, int tap_d, int lane,
                                              const Compute* row) {
    const Channels channels(block, lane);
    if (index < kWeightSums) {
        const int pair = index / kPlaneTaps, i = pair % kPack, a = pair / kPack / kDstBlock,
                  b = pair / kPack % kDstBlock;
        if (a >= channels.src_count || b >= channels.dst_count) return;
        const int64_t kernel =
            int64_t{1} * (channels.src + a + i) * kDstChannels + (channels.dst + b + i) % kDstChannels;
        partials[kernel * kTaps + tap_d * kPlaneTaps + index % kPlaneTaps] = sum_row(row);
    } else if (tap_d == 0 && channels.sums_bias()) {
        const int b = index - kWeightSums;
        if (b / kPack >= channels.dst_count) return;
        Compute sum = 0;
        for (int each = 0; each < kTapsD; ++each) sum += sum_row(row + each * kLanes * kPitch);
        partials[kWeights + channels.dst + b] = sum;
    }
}

/// Adds the threads' sums in a fixed order, and stores them.
__device__ __forceinline__ void store_partials(Compute* partials, Totals& totals, int64_t block, const Part& part) {
    __shared__ Compute shares[kTogether * kRows * kPitch];
#pragma unroll
    for (int first = 0; first < kSums; first += kTogether) {
        __syncthreads(); // the shares before these have been read
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
            if (first + i < kSums)
                shares[((i * kTapsD + part.tap_d) * kLanes + part.lane) * kPitch + part.cell] = totals[first + i];
        }
        __syncthreads();
        const int count = kSums - first < kTogether ? kSums - first : kTogether;
        for (int row = threadIdx.x; row < count * kRows; row += kThreads)
            store_partial(partials, block, first + row / kRows, row % kRows / kLanes, row % kLanes,
                          shares + row * kPitch);
    }
}

} // namespace
