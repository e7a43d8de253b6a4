// fwd as a plain correlation: dst[n, co, o] sums src[n, ci, i] · weight[ci, co, j] over the input channels of the group
// and the taps j that reach o.
#include "direct_correlation.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    direct_fwd(const __grid_constant__ DirectCorrelationArguments args, const __grid_constant__ Output output) {
    correlate<FwdTaps>(args, output);
}
