// bwd_data by cells: grad_src[n, ci, i] sums grad_dst[n, co, s·i − p + j·d] · weight[ci, co, j] over the output
// channels of the group and the taps j that stay inside dst.

constexpr bool kFwd = false;

#include "cells_correlation.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, kCtas)
    cells_bwd_data(const __grid_constant__ CellArguments args, const __grid_constant__ Output output) {
    correlate(args, output);
}
