#pragma once

// Results that lie side by side in memory, stored in one access where that is aligned.
#include "finish/finish.cuh"

/// Stores all `values` in one access.
template <int kCount>
__device__ __forceinline__ void store_pack(Storage* first, const Compute (&values)[kCount], bool wanted) {
    if constexpr (sizeof(Storage) == 2 && kCount > 1) {
        using Words = Pack<uint32_t, kCount / 2>;
        Words words;
#pragma unroll
        for (int i = 0; i < kCount / 2; ++i) words.elements[i] = to_word(values[2 * i], values[2 * i + 1], Storage{});
        store_if(wanted, reinterpret_cast<Words*>(first), words);
    } else {
        Pack<Storage, kCount> pack;
#pragma unroll
        for (int i = 0; i < kCount; ++i) store(pack.elements + i, values[i]);
        store_if(wanted, reinterpret_cast<Pack<Storage, kCount>*>(first), pack);
    }
}

/// Stores the first `count` of `values`, in one access where `aligned` says that it may be.
template <int kCount>
__device__ __forceinline__ void store_values(Storage* first, const Compute (&values)[kCount], int count, bool aligned,
                                             bool wanted) {
    constexpr int kBytes = kCount * sizeof(Storage);
    if constexpr ((kBytes & (kBytes - 1)) == 0 && kBytes <= 16) {
        if (aligned && count == kCount) return store_pack(first, values, wanted);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        Storage element;
        store(&element, values[i]);
        store_if(wanted && i < count, first + i, element);
    }
}

/// Finishes a fragment whose outputs are neighbours in memory, and stores the first `count` of them. `aligned` promises
/// that the first one's index is a multiple of kCount in a tensor that begins on such an address. Nothing is read or
/// written where they are not wanted.
template <int kCount, int kChannelStep, typename Index>
__device__ __forceinline__ void store_fragment(const Output& output,
                                               const Fragment<kCount, kChannelStep, Index>& fragment, int count,
                                               bool aligned, bool wanted) {
    for_each_result(output, [&](auto result, Storage* tensor) {
        Fragment<kCount, kChannelStep, Index> results = fragment;
        finish<result.value>(results, output, [&](int i) { return wanted && i < count; });
        store_values(tensor + fragment.index, results.values, count, aligned, wanted);
    });
}
