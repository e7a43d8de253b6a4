#pragma once

// Where results go: bias, preactivation, epilogue, rounding. Every kernel family stores through here.
//
// From the host (epilogue_source.hpp): Storage, Compute, kHasBias, kSavesPreactivation, kOperandRoom and
// `Compute epilogue(Compute x, const void* const* operands, int channel, int64_t index)`.
#include "base/storage.cuh"

/// A kernel argument of its own. The host builds it as a row of pointers, in this order.
struct Output {
    Storage* dst;
    Storage* preactivation;
    const Storage* bias;
    const void* operands[kOperandRoom];
};

__device__ __forceinline__ Compute load_bias(const Output& output, int channel) {
    if constexpr (kHasBias) {
        return load_readonly(output.bias + channel);
    } else {
        return Compute(0);
    }
}

/// One output: `index` counts elements of dst, `channel` those of all groups.
__device__ __forceinline__ void store_output(const Output& output, Compute sum, Compute bias, int channel,
                                             int64_t index) {
    const Compute value = sum + bias;
    if constexpr (kSavesPreactivation) store(output.preactivation + index, value);
    store(output.dst + index, epilogue(value, output.operands, channel, index));
}

/// Values that lie side by side, in one access.
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

template <int kCount>
__device__ __forceinline__ void store_row(Storage* first, const Compute (&values)[kCount], int count, bool aligned,
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

/// The first `count` of kCount values, bias added, that lie side by side from `index` on, along w or, where
/// kChannelStride is 1, along channels. They move in one access where they can: `aligned` promises that dst + index and
/// preactivation + index are multiples of kCount elements. Nothing is read or written where they are not wanted.
template <int kChannelStride, int kCount, typename Index>
__device__ __forceinline__ void store_values(const Output& output, Compute (&values)[kCount], int channel, Index index,
                                             int count, bool aligned, bool wanted) {
    if constexpr (kSavesPreactivation) store_row(output.preactivation + index, values, count, aligned, wanted);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        if (kOperands == 0 || (wanted && i < count))
            values[i] = epilogue(values[i], output.operands, channel + i * kChannelStride, index + i);
    }
    store_row(output.dst + index, values, count, aligned, wanted);
}

/// Outputs of one channel, side by side along w.
template <int kCount, typename Index>
__device__ __forceinline__ void store_outputs(const Output& output, const Compute (&sums)[kCount], Compute bias,
                                              int channel, Index index, int count, bool aligned, bool wanted) {
    Compute values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = sums[i] + bias;
    store_values<0>(output, values, channel, index, count, aligned, wanted);
}
