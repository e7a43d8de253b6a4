#pragma once

// Where accumulators become results: bias, preactivation, epilogue. Every store of every kernel comes here with a
// fragment of outputs that a thread holds in registers; what it then does with the results, from rounding to the way
// into the tensor, is its own.
//
// From the host (source/output_source.cpp): Storage, Compute, kHasBias, kSavesPreactivation, kOperands, kOperandRoom
// and `Compute epilogue(Compute x, const void* const* operands, int channel, int64_t index)`. With kAddsAbsentBias zero
// is added where there is no bias: in the streamed form the compiler would otherwise copy accumulators before it has
// waited for their last products. With kCallsEpilogue the epilogue is one function that is called for each output: its
// code at every output of a thread would take too long to compile.
#include "base/storage.cuh"
#include "shared/output.cuh"

using Output = tconv3d::cuda::OutputTensors<Storage, kOperandRoom>;

__device__ __forceinline__ Compute load_bias(const Output& output, int channel) {
    if constexpr (kHasBias) {
        return load_readonly(output.bias + channel);
    } else {
        return Compute(0);
    }
}

/// Outputs that a thread holds, and where they belong. They are neighbours along w in one channel (kChannelStep 0), or
/// neighbouring channels of one voxel (kChannelStep 1).
template <int kCount, int kChannelStep, typename Index>
struct Fragment {
    Compute values[kCount]; ///< accumulators; finish() makes results of them
    Compute bias[kChannelStep == 0 ? 1 : kCount];
    int channel;    ///< of the first, counted through all groups
    Index index;    ///< of the first, in elements of the output
    Index step = 1; ///< elements from one to the next
};

/// What a result is: the preactivation, or the output itself.
enum class Result { preactivation, out };

template <Result kResult>
struct ResultOf {
    static constexpr Result value = kResult;
};

/// The epilogue of an output that exists; any other is left as it is. A template, so that it is compiled where it is
/// used.
template <typename Value>
__device__ __noinline__ Value called_epilogue(Value x, const void* const* operands, int channel, int64_t index,
                                              bool exists) {
    return exists ? epilogue(x, operands, channel, index) : x;
}

/// Makes results of a fragment's accumulators. Operands are read for outputs that exist, by `exists(i)`.
template <Result kResult, int kCount, int kChannelStep, typename Index, typename Exists>
__device__ __forceinline__ void finish(Fragment<kCount, kChannelStep, Index>& fragment, const Output& output,
                                       Exists exists) {
    if constexpr (kHasBias || kAddsAbsentBias) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) fragment.values[i] += fragment.bias[i * kChannelStep];
    }
    if constexpr (kResult == Result::out) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if constexpr (kCallsEpilogue) {
                fragment.values[i] =
                    called_epilogue(fragment.values[i], output.operands, fragment.channel + i * kChannelStep,
                                    fragment.index + i * fragment.step, kOperands == 0 || exists(i));
            } else if (kOperands == 0 || exists(i)) {
                fragment.values[i] = epilogue(fragment.values[i], output.operands, fragment.channel + i * kChannelStep,
                                              fragment.index + i * fragment.step);
            }
        }
    }
}

/// Calls store(result, tensor) for each kind of result that is stored: the preactivation where it is saved, then the
/// output. `result.value` is the Result.
template <typename Store>
__device__ __forceinline__ void for_each_result(const Output& output, Store store) {
    if constexpr (kSavesPreactivation) store(ResultOf<Result::preactivation>{}, output.preactivation);
    store(ResultOf<Result::out>{}, output.out);
}
