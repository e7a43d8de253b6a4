// The gradient of the bias beside the reduced form: grad_bias[co] sums grad_dst[n, co, o] over all images and voxels.
// A CTA sums a part of the voxels of all images, of neighbouring channels where channels are last, else of one channel;
// add_splits.cuh adds the parts.
#include "base/storage.cuh"
#include "finish/thread_sums.cuh"
#include "shared/reduction.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int kRows = kThreads / kLanes; // voxels side by side

/// Eight loads are under way at a time; their sum is added in double.
__device__ __forceinline__ double sum_part(const Storage* channel, int64_t stride, int64_t begin, int64_t end) {
    constexpr int kAtOnce = 8;
    double total = 0;
    for (int64_t first = begin + threadIdx.x / kLanes; first < end; first += kAtOnce * kRows) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int64_t voxel = first + i * kRows;
            if (voxel < end) sum += load_readonly(channel + voxel * stride);
        }
        total += sum;
    }
    return total;
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    reduction_bias(const __grid_constant__ ReductionBiasArguments args) {
    const int64_t part = blockIdx.x % args.parts;
    const int64_t channel = blockIdx.x / args.parts * kLanes + threadIdx.x % kLanes;
    const int64_t voxel_stride = kChannelsLast ? args.channels : 1;
    const int64_t begin = args.voxels * part / args.parts, end = args.voxels * (part + 1) / args.parts;
    double total = 0;
    for (int64_t image = 0; image < args.batch && channel < args.channels; ++image) {
        const int64_t first = image * args.channels * args.voxels + (kChannelsLast ? channel : channel * args.voxels);
        total += sum_part(static_cast<const Storage*>(args.grad_dst) + first, voxel_stride, begin, end);
    }
    total = sum_threads(total, kRows, kLanes);
    if (threadIdx.x < kLanes && channel < args.channels)
        args.sums[part * args.channels + channel] = static_cast<float>(total);
}
