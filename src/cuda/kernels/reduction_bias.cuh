// The gradient of the bias beside the reduced form: grad_bias[co] sums grad_dst[n, co, o] over all images and voxels.
// A CTA sums a part of the voxels of all images, of neighbouring channels where channels are last, else of one channel;
// reduction_splits.cuh adds the parts.
#include "base/storage.cuh"
#include "shared/reduction.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int kAllChannels = kGroups * kDstChannels;
constexpr int kRows = kThreads / kLanes; // voxels side by side

/// Eight loads are under way at a time; their sum is added in double.
__device__ __forceinline__ double sum_part(const Storage* channel, int64_t begin, int64_t end) {
    constexpr int kAtOnce = 8;
    constexpr int64_t kVoxelStride = kChannelsLast ? kAllChannels : 1;
    double total = 0;
    for (int64_t first = begin + threadIdx.x / kLanes; first < end; first += kAtOnce * kRows) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int64_t voxel = first + i * kRows;
            if (voxel < end) sum += load_readonly(channel + voxel * kVoxelStride);
        }
        total += sum;
    }
    return total;
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    reduction_bias(const __grid_constant__ ReductionBiasArguments args) {
    __shared__ double shares[kThreads];
    const int64_t part = blockIdx.x % args.parts;
    const int channel = static_cast<int>(blockIdx.x / args.parts) * kLanes + threadIdx.x % kLanes;
    const int64_t begin = args.voxels * part / args.parts, end = args.voxels * (part + 1) / args.parts;
    double total = 0;
    for (int64_t image = 0; image < args.batch && channel < kAllChannels; ++image) {
        const int64_t first = image * kAllChannels * args.voxels + (kChannelsLast ? channel : channel * args.voxels);
        total += sum_part(static_cast<const Storage*>(args.grad_dst) + first, begin, end);
    }
    shares[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x < kLanes && channel < kAllChannels) {
        for (int row = 1; row < kRows; ++row) total += shares[row * kLanes + threadIdx.x];
        args.sums[part * kAllChannels + channel] = static_cast<float>(total);
    }
}
