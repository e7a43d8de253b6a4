#pragma once

// fwd and bwd_data as plain correlations: a thread sums one voxel of kBlock result channels. It takes every problem, in
// 64-bit indexes, and needs no table: the taps of a voxel follow from its index (shared/tap_progression.cuh).
#include "finish/finish.cuh"
#include "shared/direct_arguments.cuh"
#include "shared/tap_progression.cuh"

namespace {

using namespace tconv3d::cuda;

constexpr int64_t kTaps = int64_t{1} * kKernelD * kKernelH * kKernelW;
constexpr int kBlocks = (kOutChannels + kBlock - 1) / kBlock; // of a group

struct Item {
    int64_t n, d, h, w;
    int group, first; ///< first channel of the block within its group
};

/// Neighbouring threads take neighbouring results: along W, along the channels in channels-last.
__device__ __forceinline__ Item item_at(const VoxelExtents& extents, int64_t index) {
    Item item;
    int block;
    if constexpr (kChannelsLast) {
        block = index % (kGroups * kBlocks);
        index /= kGroups * kBlocks;
    }
    item.w = index % extents.w;
    index /= extents.w;
    item.h = index % extents.h;
    index /= extents.h;
    item.d = index % extents.d;
    index /= extents.d;
    if constexpr (!kChannelsLast) {
        block = index % (kGroups * kBlocks);
        index /= kGroups * kBlocks;
    }
    item.n = index;
    item.group = block / kBlocks;
    item.first = block % kBlocks * kBlock;
    return item;
}

/// Adds one tap: a sum over the channels that are read, of its own, which halves the rounding error of one long chain.
__device__ __forceinline__ void add_tap(Compute (&sums)[kBlock], const Storage* in, int64_t channel_stride,
                                        const Storage* weight, int channels) {
    Compute parts[kBlock] = {};
    for (int64_t c = 0; c < kInChannels; ++c) {
        const Compute value = load_readonly(in + c * channel_stride);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) {
            if (i < channels)
                parts[i] += value * load_readonly(weight + (c * kWeightIn + int64_t{1} * i * kWeightOut) * kTaps);
        }
    }
#pragma unroll
    for (int i = 0; i < kBlock; ++i) sums[i] += parts[i];
}

template <typename Taps>
__device__ __forceinline__ void sum_taps(Compute (&sums)[kBlock], const DirectCorrelationArguments& args,
                                         const Item& item, int channels) {
    constexpr Taps kD(kKernelD, kStrideD, kPaddingD, kDilationD);
    constexpr Taps kH(kKernelH, kStrideH, kPaddingH, kDilationH);
    constexpr Taps kW(kKernelW, kStrideW, kPaddingW, kDilationW);
    const VoxelExtents& extents = args.in_extents;
    const TapRange range_d = kD.at(item.d, extents.d), range_h = kH.at(item.h, extents.h),
                   range_w = kW.at(item.w, extents.w);
    const int64_t voxels = extents.d * extents.h * extents.w;
    const int64_t voxel_stride = kChannelsLast ? int64_t{1} * kGroups * kInChannels : 1;
    const int64_t channel_stride = kChannelsLast ? 1 : voxels;
    const Storage* const in = static_cast<const Storage*>(args.in) + item.n * kGroups * kInChannels * voxels +
                              int64_t{1} * item.group * kInChannels * channel_stride;
    const Storage* const weight =
        static_cast<const Storage*>(args.weight) +
        (int64_t{1} * item.group * kInChannels * kOutChannels + int64_t{1} * item.first * kWeightOut) * kTaps;
    for (int64_t a = 0; a < range_d.count; ++a) {
        const int64_t d = range_d.in - a * kD.in_back(), tap_d = range_d.tap + a * kD.tap_step();
        for (int64_t b = 0; b < range_h.count; ++b) {
            const int64_t h = range_h.in - b * kH.in_back(), tap_h = range_h.tap + b * kH.tap_step();
            for (int64_t c = 0; c < range_w.count; ++c) {
                const int64_t w = range_w.in - c * kW.in_back(), tap_w = range_w.tap + c * kW.tap_step();
                add_tap(sums, in + ((d * extents.h + h) * extents.w + w) * voxel_stride, channel_stride,
                        weight + (tap_d * kKernelH + tap_h) * kKernelW + tap_w, channels);
            }
        }
    }
}

/// All of a thread's items; Taps says which taps a voxel has.
template <typename Taps>
__device__ __forceinline__ void correlate(const DirectCorrelationArguments& args, const Output& output) {
    const VoxelExtents& extents = args.out_extents;
    const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; index < args.items;
         index += threads) {
        const Item item = item_at(extents, index);
        const int channels = kOutChannels - item.first < kBlock ? kOutChannels - item.first : kBlock;
        Compute sums[kBlock] = {};
        sum_taps<Taps>(sums, args, item, channels);
        const int64_t voxels = extents.d * extents.h * extents.w;
        const int64_t voxel = (item.d * extents.h + item.h) * extents.w + item.w;
#pragma unroll
        for (int i = 0; i < kBlock; ++i) {
            const int channel = item.group * kOutChannels + item.first + i;
            const int64_t place = kChannelsLast ? (item.n * voxels + voxel) * (kGroups * kOutChannels) + channel
                                                : (item.n * (kGroups * kOutChannels) + channel) * voxels + voxel;
            if (i >= channels) continue;
            for_each_result(output, [&](auto result, Storage* tensor) {
                Fragment<1, 0, int64_t> sum{{sums[i]}, {load_bias(output, channel)}, channel, place};
                finish<result.value>(sum, output, [](int) { return true; });
                store(tensor + place, sum.values[0]);
            });
        }
    }
}

} // namespace
