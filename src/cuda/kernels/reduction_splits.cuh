// The second pass of the reduced form: adds the sums of all splits in their order, rounds once and stores. Sums of
// weights lie by tap, src channel and dst channel, an even number of these; grad_weight has its taps last.
#include "base/storage.cuh"
#include "shared/reduction.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int64_t kTaps = int64_t{1} * kKernelD * kKernelH * kKernelW;
constexpr int64_t kRow = (kDstChannels + 1) / 2 * 2, kRows = int64_t{1} * kGroups * kSrcChannels;

__device__ __forceinline__ float sum_splits(const SplitSums& given, int64_t index) {
    float sum = 0;
    for (int64_t split = 0; split < given.splits; ++split) sum += __ldg(given.sums + split * given.count + index);
    return sum;
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    reduction_splits(const __grid_constant__ ReductionSplitsArguments args) {
    const int64_t first = int64_t{1} * blockIdx.x * kThreads + threadIdx.x;
    for (int64_t index = first; index < args.weight.count; index += int64_t{1} * gridDim.x * kThreads) {
        const int64_t channel = index % kRow, row = index / kRow % kRows, tap = index / (kRow * kRows);
        if (channel < kDstChannels)
            store(static_cast<Storage*>(args.weight.results) + (row * kDstChannels + channel) * kTaps + tap,
                  sum_splits(args.weight, index));
    }
    for (int64_t index = first; index < args.bias.count; index += int64_t{1} * gridDim.x * kThreads)
        store(static_cast<Storage*>(args.bias.results) + index, sum_splits(args.bias, index));
}
