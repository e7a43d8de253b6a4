// fwd by cells: dst[n, co, o] sums src[n, ci, i] · weight[ci, co, j] over the input channels of the group and the taps
// j that reach o.

constexpr bool kFwd = true;
// What the prelude of bwd_data tells.
constexpr int kInStrideD = 1, kInStrideH = 1, kInStrideW = 1;
constexpr int kVector = kChannelsLast ? 1 : kCellW / kStrideW;

#include "cells_correlation.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, kCtas)
    cells(const __grid_constant__ CellArguments args, const __grid_constant__ Output output) {
    correlate(args, output);
}
