// fwd as a plain gather: a thread sums one voxel of kBlock output channels. It takes every problem, in 64-bit indexes,
// and builds no table of phases: the taps of an output follow from its index (docs/math.md).
//
// With g = gcd(stride, dilation) and t = o + padding, output o has taps only if g divides r = t mod stride. They are
// j0, j0 + stride/g, …, with j0 = (r/g) · (dilation/g)⁻¹ modulo stride/g; each next one reads src dilation/g lower.
//
// Constants from the host: kKernel* kStride* kPadding* kDilation* kGcd* kInverse* for D, H, W; kCi and kCo of a group,
// kGroups, kBlock, kChannelsLast, kThreads, and what output.cuh needs.
#include "finish/finish.cuh"

namespace {

struct DirectArgs {
    const Storage* in;
    const Storage* weight;
    int64_t src_d, src_h, src_w;
    int64_t dst_d, dst_h, dst_w;
    int64_t items; ///< voxels of all samples times blocks of channels
};

constexpr int64_t kTaps = int64_t{1} * kKernelD * kKernelH * kKernelW;
constexpr int kBlocks = (kCo + kBlock - 1) / kBlock; // of a group

/// The taps that reach an output along one dimension, without those that would read outside of src.
struct Taps {
    int64_t tap; ///< the first
    int64_t src; ///< the index that it reads
    int64_t count;
};

struct Dimension {
    int64_t kernel, stride, padding, dilation, gcd, inverse;

    __device__ __forceinline__ Taps taps(int64_t output, int64_t src_extent) const {
        const int64_t step = stride / gcd, back = dilation / gcd;
        const int64_t reach = output + padding;
        const int64_t phase = reach % stride;
        const int64_t tap = phase / gcd * inverse % step;
        const int64_t src = (reach - tap * dilation) / stride;
        if (phase % gcd != 0 || tap >= kernel || src < 0) return {0, 0, 0};
        const int64_t skipped = src < src_extent ? 0 : (src - src_extent) / back + 1;
        const int64_t in_kernel = (kernel - 1 - tap) / step, in_src = src / back;
        const int64_t last = in_kernel < in_src ? in_kernel : in_src;
        return {tap + skipped * step, src - skipped * back, last - skipped + 1};
    }
};

constexpr Dimension kD = {kKernelD, kStrideD, kPaddingD, kDilationD, kGcdD, kInverseD};
constexpr Dimension kH = {kKernelH, kStrideH, kPaddingH, kDilationH, kGcdH, kInverseH};
constexpr Dimension kW = {kKernelW, kStrideW, kPaddingW, kDilationW, kGcdW, kInverseW};

struct Item {
    int64_t n, d, h, w;
    int group, first; ///< first channel of the block within its group
};

/// Neighbouring threads take neighbouring elements of dst: along W, along the channels in channels-last.
__device__ __forceinline__ Item item_at(const DirectArgs& args, int64_t index) {
    Item item;
    int block;
    if constexpr (kChannelsLast) {
        block = index % (kGroups * kBlocks);
        index /= kGroups * kBlocks;
    }
    item.w = index % args.dst_w;
    index /= args.dst_w;
    item.h = index % args.dst_h;
    index /= args.dst_h;
    item.d = index % args.dst_d;
    index /= args.dst_d;
    if constexpr (!kChannelsLast) {
        block = index % (kGroups * kBlocks);
        index /= kGroups * kBlocks;
    }
    item.n = index;
    item.group = block / kBlocks;
    item.first = block % kBlocks * kBlock;
    return item;
}

/// Adds one tap: a sum over the input channels of its own, which halves the rounding error of one long chain.
__device__ __forceinline__ void add_tap(Compute (&sums)[kBlock], const Storage* src, int64_t channel_stride,
                                        const Storage* weight, int channels) {
    Compute parts[kBlock] = {};
    for (int64_t ci = 0; ci < kCi; ++ci) {
        const Compute value = load_readonly(src + ci * channel_stride);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) {
            if (i < channels) parts[i] += value * load_readonly(weight + (ci * kCo + i) * kTaps);
        }
    }
#pragma unroll
    for (int i = 0; i < kBlock; ++i) sums[i] += parts[i];
}

__device__ __forceinline__ void sum_taps(Compute (&sums)[kBlock], const DirectArgs& args, const Item& item,
                                         int channels) {
    const Taps taps_d = kD.taps(item.d, args.src_d);
    const Taps taps_h = kH.taps(item.h, args.src_h);
    const Taps taps_w = kW.taps(item.w, args.src_w);
    const int64_t voxels = args.src_d * args.src_h * args.src_w;
    const int64_t voxel_stride = kChannelsLast ? int64_t{1} * kGroups * kCi : 1;
    const int64_t channel_stride = kChannelsLast ? 1 : voxels;
    const Storage* const src =
        args.in + item.n * kGroups * kCi * voxels + int64_t{1} * item.group * kCi * channel_stride;
    const Storage* const weight = args.weight + (int64_t{1} * item.group * kCi * kCo + item.first) * kTaps;
    for (int64_t a = 0; a < taps_d.count; ++a) {
        const int64_t d = taps_d.src - a * (kDilationD / kGcdD), tap_d = taps_d.tap + a * (kStrideD / kGcdD);
        for (int64_t b = 0; b < taps_h.count; ++b) {
            const int64_t h = taps_h.src - b * (kDilationH / kGcdH), tap_h = taps_h.tap + b * (kStrideH / kGcdH);
            for (int64_t c = 0; c < taps_w.count; ++c) {
                const int64_t w = taps_w.src - c * (kDilationW / kGcdW), tap_w = taps_w.tap + c * (kStrideW / kGcdW);
                add_tap(sums, src + ((d * args.src_h + h) * args.src_w + w) * voxel_stride, channel_stride,
                        weight + (tap_d * kKernelH + tap_h) * kKernelW + tap_w, channels);
            }
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    direct_fwd(const __grid_constant__ DirectArgs args, const __grid_constant__ Output output) {
    const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; index < args.items;
         index += threads) {
        const Item item = item_at(args, index);
        const int channels = kCo - item.first < kBlock ? kCo - item.first : kBlock;
        Compute sums[kBlock] = {};
        sum_taps(sums, args, item, channels);
        const int64_t voxels = args.dst_d * args.dst_h * args.dst_w;
        const int64_t voxel = (item.d * args.dst_h + item.h) * args.dst_w + item.w;
#pragma unroll
        for (int i = 0; i < kBlock; ++i) {
            const int channel = item.group * kCo + item.first + i;
            const int64_t place = kChannelsLast ? (item.n * voxels + voxel) * (kGroups * kCo) + channel
                                                : (item.n * (kGroups * kCo) + channel) * voxels + voxel;
            if (i >= channels) continue;
            for_each_result(output, [&](auto result, Storage* tensor) {
                Fragment<1, 0, int64_t> sum{{sums[i]}, {load_bias(output, channel)}, channel, place};
                finish<result.value>(sum, output, [](int) { return true; });
                store(tensor + place, sum.values[0]);
            });
        }
    }
}
