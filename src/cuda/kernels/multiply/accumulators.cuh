#pragma once

// The accumulators of a consumer thread. Both engines keep them in the same registers: a warp has 16 rows of each m64
// tile of its warpgroup, and a lane has rows g and g + 8 of these and columns 2t and 2t + 1 of every 8, with
// g = lane / 4 and t = lane % 4.
#include "schedule/constants.cuh"

namespace {

struct Accumulators {
    float values[kMTiles][kAccumulatorPhases * kColumns / 2];
};

__device__ __forceinline__ void clear(Accumulators& acc) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int j = 0; j < kAccumulatorPhases * kColumns / 2; ++j) ptx::clear(acc.values[m][j]);
}

/// Adds `more` to the accumulators of the phases that a tap group adds to.
template <int Group>
__device__ __forceinline__ void add(Accumulators& acc, const Accumulators& more) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int j = 0; j < kAccumulatorPhases * kColumns / 2; ++j)
            if (kGroupAdds[Group * kAccumulatorPhases + j / (kColumns / 2)]) acc.values[m][j] += more.values[m][j];
}

} // namespace
