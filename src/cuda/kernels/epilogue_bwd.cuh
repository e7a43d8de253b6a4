// The backward of an epilogue in one pass: it reads grad_dst, what was saved and the operands, and writes
// grad_preactivation and the gradients of residuals. For the tensors with one value per channel, and for the bias,
// whose gradient is the sum of grad_preactivation, it leaves partial sums, which epilogue_bwd_sums.cuh adds.
//
// Tensors are read and written in packs of 16 aligned bytes, whatever their extents: a pack that begins or ends outside
// of an item is taken element by element. An item is a part of a plane, all of one channel; where no step asks for the
// channel, the whole tensor is one plane and kChannelsLast is false in both layouts. Where channels are last, the
// tensor is cut into rows of as many elements as give whole packs and whole voxels: then all packs of a column hold the
// same channels, and a thread stays in its column.
//
// From the host (source/epilogue_source.cpp): Storage, Compute and `Compute epilogue_bwd(Compute grad, Compute saved,
// const Compute* values, Compute* grad_values)`. With kCallsEpilogue that is one function which is called for each
// element.
#include "base/storage.cuh"
#include "finish/thread_sums.cuh"
#include "shared/epilogue_bwd.cuh"

namespace {

using namespace tconv3d::cuda;
using Tensors = EpilogueBwdTensors<kOperandRoom>;

constexpr int kWidth = 16 / sizeof(Storage);          // elements of a pack
constexpr int kSumWidth = kChannelsLast ? kWidth : 1; // channels of a pack
constexpr int kSumRoom = kSums > 0 ? kSums : 1;

/// A pack, of which the elements from `first` to `end` belong to the item.
struct Span {
    int64_t index;
    int first, end;

    __device__ __forceinline__ Span(int64_t pack, int64_t item_begin, int64_t item_end) : index(pack * kWidth) {
        first = index < item_begin ? static_cast<int>(item_begin - index) : 0;
        end = index + kWidth > item_end ? static_cast<int>(item_end - index) : kWidth;
    }
    __device__ __forceinline__ bool is_whole() const { return first == 0 && end == kWidth; }
    __device__ __forceinline__ bool has(int i) const { return i >= first && i < end; }
};

/// The elements of the span, zero where they do not belong to the item.
__device__ __forceinline__ void load_span(Compute (&values)[kWidth], const void* tensor, const Span& span) {
    const Storage* const elements = static_cast<const Storage*>(tensor) + span.index;
    if (span.is_whole()) {
        const Pack<Storage, kWidth> pack = load_readonly_if<kWidth>(true, elements);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = to_compute(pack.elements[i]);
    } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = span.has(i) ? load_readonly(elements + i) : Compute(0);
    }
}

__device__ __forceinline__ void store_span(void* tensor, const Compute (&values)[kWidth], const Span& span) {
    Pack<Storage, kWidth> pack;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) store(pack.elements + i, values[i]);
    Storage* const elements = static_cast<Storage*>(tensor) + span.index;
    if (span.is_whole()) {
        store_if(true, reinterpret_cast<Pack<Storage, kWidth>*>(elements), pack);
    } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            if (span.has(i)) elements[i] = pack.elements[i];
        }
    }
}

/// A template, so that it is compiled where it is used.
template <typename Value>
__device__ __noinline__ Value called_epilogue_bwd(Value grad, Value saved, const Value* values, Value* grad_values) {
    return epilogue_bwd(grad, saved, values, grad_values);
}

/// The packs of an item that a thread takes, and where the sums of their channels belong.
struct Part {
    int64_t pack, pack_step, pack_end;
    int64_t begin, end; ///< elements of the item
    int64_t channel;    ///< of the pack's first element
    int rows, columns;  ///< threads of the CTA: those of a column have the same channels
    int64_t partial;    ///< where the sum of the first channel goes, unless it is negative
};

/// A part of a plane.
__device__ __forceinline__ Part part_of_plane(const EpilogueBwdArguments& args, int64_t item) {
    const int64_t plane = item / args.chunks, chunk = item % args.chunks;
    const int64_t begin = plane * args.length + chunk * args.chunk, end = (plane + 1) * args.length;
    Part part;
    part.begin = begin;
    part.end = end - begin < args.chunk ? end : begin + args.chunk;
    part.pack = begin / kWidth + threadIdx.x;
    part.pack_step = kThreads;
    part.pack_end = (part.end + kWidth - 1) / kWidth;
    part.channel = plane % args.channels;
    part.rows = kThreads;
    part.columns = 1;
    part.partial = threadIdx.x == 0 ? (plane / args.channels * args.chunks + chunk) * args.places + part.channel : -1;
    return part;
}

/// Some rows of up to kThreads columns of packs.
__device__ __forceinline__ Part part_of_columns(const EpilogueBwdArguments& args, int64_t item) {
    const int64_t chunk = item % args.chunks, first_column = item / args.chunks * kThreads;
    const int64_t row_packs = args.places / kWidth, columns_left = row_packs - first_column;
    Part part;
    part.columns = columns_left < kThreads ? static_cast<int>(columns_left) : kThreads;
    part.rows = row_packs < kThreads ? kThreads / part.columns : 1;
    const int row = static_cast<int>(threadIdx.x) / part.columns;
    const int64_t column = first_column + static_cast<int>(threadIdx.x) % part.columns;
    const int64_t packs = (args.length + kWidth - 1) / kWidth, last = (chunk + 1) * args.chunk * row_packs;
    part.begin = 0;
    part.end = args.length;
    part.pack = (chunk * args.chunk + row) * row_packs + column;
    part.pack_step = part.rows * row_packs;
    part.pack_end = row >= part.rows ? 0 : last < packs ? last : packs;
    part.channel = column * kWidth % args.channels;
    part.partial = row == 0 ? chunk * args.places + column * kWidth : -1;
    return part;
}

/// The channels of a thread's packs: what the operands hold for them, and the sums of their gradients.
struct Channels {
    Compute values[kSumRoom][kSumWidth];
    Compute sums[kSumRoom][kSumWidth] = {};

    __device__ __forceinline__ Channels(const EpilogueBwdArguments& args, const Tensors& tensors, const Part& part) {
#pragma unroll
        for (int i = 0; i < kSumWidth; ++i) {
            const int64_t channel = (part.channel + i) % args.channels;
#pragma unroll
            for (int operand = 0; operand < kOperands; ++operand) {
                const int sum = kOperandSum[operand];
                if (sum >= 0)
                    values[sum][i] = load_readonly(static_cast<const Storage*>(tensors.operands[operand]) + channel);
            }
        }
    }
};

__device__ __forceinline__ void take_pack(const Tensors& tensors, const Span& span, Channels& channels) {
    Compute grads[kWidth], saved[kWidth] = {}, values[kOperandRoom][kWidth], grad_values[kOperandRoom][kWidth];
    load_span(grads, tensors.grad_dst, span);
    if constexpr (kReadsSaved) load_span(saved, tensors.saved, span);
#pragma unroll
    for (int operand = 0; operand < kOperands; ++operand) {
        if (kOperandSum[operand] < 0) load_span(values[operand], tensors.operands[operand], span);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
        Compute at[kOperandRoom], grad_at[kOperandRoom];
#pragma unroll
        for (int operand = 0; operand < kOperands; ++operand) {
            const int sum = kOperandSum[operand];
            at[operand] = sum < 0 ? values[operand][i] : channels.values[sum][i % kSumWidth];
        }
        grads[i] = kCallsEpilogue ? called_epilogue_bwd(grads[i], saved[i], at, grad_at)
                                  : epilogue_bwd(grads[i], saved[i], at, grad_at);
        if (kSumsBias && span.has(i)) channels.sums[kSums - 1][i % kSumWidth] += grads[i];
#pragma unroll
        for (int operand = 0; operand < kOperands; ++operand) {
            grad_values[operand][i] = grad_at[operand];
            const int sum = kOperandSum[operand];
            if (sum >= 0 && span.has(i)) channels.sums[sum][i % kSumWidth] += grad_at[operand];
        }
    }
    store_span(tensors.grad_preactivation, grads, span);
#pragma unroll
    for (int operand = 0; operand < kOperands; ++operand) {
        if (kOperandSum[operand] < 0 && tensors.grad_operands[operand] != nullptr)
            store_span(tensors.grad_operands[operand], grad_values[operand], span);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    epilogue_bwd_packs(const __grid_constant__ EpilogueBwdArguments args, const __grid_constant__ Tensors tensors) {
    for (int64_t item = blockIdx.x; item < args.items; item += gridDim.x) {
        const Part part = kChannelsLast ? part_of_columns(args, item) : part_of_plane(args, item);
        Channels channels(args, tensors, part);
        for (int64_t pack = part.pack; pack < part.pack_end; pack += part.pack_step)
            take_pack(tensors, {pack, part.begin, part.end}, channels);
#pragma unroll
        for (int sum = 0; sum < kSums; ++sum) {
#pragma unroll
            for (int i = 0; i < kSumWidth; ++i) {
                const double total = sum_threads(channels.sums[sum][i], part.rows, part.columns);
                if (part.partial >= 0) args.partials[sum * args.slots * args.places + part.partial + i] = total;
            }
        }
    }
}
