#pragma once

// What the kernels of the reduced and of the swept form have in common: how CTAs divide their work, and where
// they store their sums.
#include "base/storage.cuh"

namespace {

constexpr int kTapBlocksD = (kKernelD + kBlockTapsD - 1) / kBlockTapsD;
constexpr int kTapBlocksH = (kKernelH + kBlockTapsH - 1) / kBlockTapsH;
constexpr int kTapBlocksW = (kKernelW + kBlockTapsW - 1) / kBlockTapsW;

/// The number of a CTA, from which its part of each dimension that CTAs divide is taken, one after another.
struct CtaNumber {
    int64_t rest;

    __device__ __forceinline__ int next(int count) {
        const int digit = static_cast<int>(rest % count);
        rest /= count;
        return digit;
    }
    /// Takes its block of taps, by the first one.
    __device__ __forceinline__ void next_taps(int& tap_d, int& tap_h, int& tap_w) {
        tap_w = next(kTapBlocksW) * kBlockTapsW;
        tap_h = next(kTapBlocksH) * kBlockTapsH;
        tap_d = next(kTapBlocksD) * kBlockTapsD;
    }
};

/// Stores the sum of a pair of channels of the group, or this split's part of it.
///
/// grad_weight is (src channels, dst channels of the group, taps). Sums of splits have their taps first and channels
/// last, an even number of them, so that the lanes of a warp fill sectors.
template <typename Item>
__device__ __forceinline__ void store_sum(void* sums, const Item& item, int src_channel, int dst_channel, int64_t tap,
                                          float sum) {
    constexpr int64_t kTaps = int64_t{1} * kKernelD * kKernelH * kKernelW;
    const int64_t row = int64_t{item.group} * kSrcChannels + src_channel;
    if constexpr (kStoresSplits) {
        constexpr int64_t kRow = (kDstChannels + 1) / 2 * 2, kTapSums = kGroups * kSrcChannels * kRow;
        static_cast<float*>(sums)[(item.split * kTaps + tap) * kTapSums + row * kRow + dst_channel] = sum;
    } else {
        store(static_cast<Storage*>(sums) + (row * kDstChannels + dst_channel) * kTaps + tap, sum);
    }
}

} // namespace
