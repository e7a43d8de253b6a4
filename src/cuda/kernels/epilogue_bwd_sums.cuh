// The gradient of an epilogue's tensor with one value per channel: a CTA adds the partial sums of a channel that
// epilogue_bwd.cuh has left, in a fixed order.
#include "base/storage.cuh"
#include "finish/thread_sums.cuh"
#include "shared/epilogue_bwd.cuh"

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    epilogue_bwd_sums(const __grid_constant__ tconv3d::cuda::EpilogueBwdSumsArguments args) {
    for (int64_t channel = blockIdx.x; channel < args.channels; channel += gridDim.x) {
        double sum = 0;
        for (int64_t i = threadIdx.x; i < args.count; i += kThreads) sum += args.partials[i * args.channels + channel];
        sum = sum_threads(sum, kThreads, 1);
        if (threadIdx.x == 0) store(static_cast<Storage*>(args.grad_operand) + channel, static_cast<Compute>(sum));
    }
}
