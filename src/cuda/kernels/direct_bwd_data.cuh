// bwd_data as a plain gather: grad_src[n, ci, i] sums grad_dst[n, co, s·i − p + j·d] · weight[ci, co, j] over the
// output channels of the group and the taps j that stay inside dst. The constants are direct_gather.cuh's.
#include "direct_gather.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    direct_bwd_data(const __grid_constant__ DirectGatherArguments args, const __grid_constant__ Output output) {
    gather<BwdDataTaps>(args, output);
}
