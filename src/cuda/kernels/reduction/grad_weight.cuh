#pragma once

// What the forms of bwd_weight on tensor cores have in common: how CTAs divide their work, and where they store their
// sums.
#include "base/storage.cuh"

namespace {

/// The number of a CTA, from which its part of each dimension that CTAs divide is taken, one after another.
struct CtaNumber {
    int64_t rest;

    __device__ __forceinline__ int next(int count) {
        const int digit = static_cast<int>(rest % count);
        rest /= count;
        return digit;
    }
};

// Where sums go. grad_weight is (src channels, dst channels of the group, taps). Sums of splits have their taps first
// and channels last, an even number of them, so that the lanes of a warp fill sectors.
constexpr int64_t kTaps = int64_t{1} * kKernelD * kKernelH * kKernelW;
constexpr int64_t kSumRow = (kDstChannels + 1) / 2 * 2;
/// From a channel of src, and of dst, to the next one.
constexpr int64_t kSrcChannelStep = kStoresSplits ? kSumRow : kDstChannels * kTaps;
constexpr int64_t kDstChannelStep = kStoresSplits ? 1 : kTaps;

/// The number of the sum of a pair of channels of the group.
template <typename Item>
__device__ __forceinline__ int64_t sum_number(const Item& item, int src_channel, int dst_channel, int64_t tap) {
    const int64_t row = int64_t{item.group} * kSrcChannels + src_channel;
    if constexpr (kStoresSplits)
        return (item.split * kTaps + tap) * (kGroups * kSrcChannels * kSumRow) + row * kSumRow + dst_channel;
    return (row * kDstChannels + dst_channel) * kTaps + tap;
}

/// Stores a sum in grad_weight, or this split's part of it.
__device__ __forceinline__ void store_numbered(void* sums, int64_t number, float sum) {
    if constexpr (kStoresSplits) {
        static_cast<float*>(sums)[number] = sum;
    } else {
        store(static_cast<Storage*>(sums) + number, sum);
    }
}

template <typename Item>
__device__ __forceinline__ void store_sum(void* sums, const Item& item, int src_channel, int dst_channel, int64_t tap,
                                          float sum) {
    store_numbered(sums, sum_number(item, src_channel, dst_channel, tap), sum);
}

} // namespace
