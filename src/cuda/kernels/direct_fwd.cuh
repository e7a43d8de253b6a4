// fwd as a plain gather: dst[n, co, o] sums src[n, ci, i] · weight[ci, co, j] over the input channels of the group and
// the taps j that reach o. The constants are direct_gather.cuh's.
#include "direct_gather.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    direct_fwd(const __grid_constant__ DirectGatherArguments args, const __grid_constant__ Output output) {
    gather<FwdTaps>(args, output);
}
