// fwd, streamed along D (docs/design.md). A CTA owns a tile of positions q of a plane and some output channels, and
// walks the source slices. Each slice multiplies, for every tap (h, w), the weights of all taps along D at once: the
// accumulators hold one slot per open output slice, a ring per D phase. When a slice is done, one slot per D phase is
// finished, gets the epilogue, is stored and cleared.
//
// One warpgroup fills the stages (two of its warps copy, two arrange), the others multiply and store.
// Constants: see stream_shape.cuh, stream_store.cuh and output.cuh; and wgmmas<Group>() or multiply_fragments().
#include "stream_arrange.cuh"
#include "stream_own.cuh"
#include "stream_store.cuh"

namespace {

/// The slices that a CTA passes, item after item. Those outside src hold nothing, but finish outputs.
struct Slices {
    Items items;
    int slice;

    __device__ __forceinline__ explicit Slices(const StreamArgs& args) : items(args), slice(item().q_d + kDeltaMinD) {}
    __device__ __forceinline__ bool done() const { return items.done(); }
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ bool first() const { return slice == item().q_d + kDeltaMinD; }
    __device__ __forceinline__ void next() {
        if (++slice < item().q_d_end + kDeltaMaxD) return;
        items.next();
        slice = item().q_d + kDeltaMinD;
    }
};

__device__ __forceinline__ void consume(const StreamArgs& args, const Output& output, const Pipeline& pipe) {
    Accumulators acc;
    Storing storing;
    OwnWeights own;
    int s = 0, w = 0;
#pragma unroll 1
    for (Slices at(args); !at.done(); at.next()) {
        if (at.first()) {
            clear(acc);
            storing.enter(args, at.item());
            if constexpr (kOwnWeights) own.enter(args, at.item(), pipe);
        }
        if (at.slice >= 0 && at.slice < args.depth) multiply_slice<0>(acc, pipe, at.item(), s, w);
        finish_slice<0>(acc, args, output, at.item(), pipe, storing, at.slice);
    }
    if constexpr (kStore == kStoreStaged) ptx::copy_bulk_out_wait<0>();
}

__device__ __forceinline__ void init_barriers(const Pipeline& pipe) {
    const auto init = [](const Buffers& buffers, int fills, int frees) {
        for (int s = 0; s < buffers.count; ++s) {
            ptx::barrier_init(buffers.filled(s), fills);
            ptx::barrier_init(buffers.freed(s), frees);
        }
    };
    constexpr int kReaders = kConsumers * 4 * kArrivals;
    init(pipe.src, kArranged ? kArrangingWarps * kArrivals : 1, kReaders);
    if constexpr (!kOwnWeights) init(pipe.weights, kArrivals, kReaders);
    init(pipe.raw, 1, kArrangingWarps);
    if constexpr (kWgmma) ptx::fence_barrier_init();
}

__device__ __forceinline__ void fill(const StreamArgs& args, const ptx::TensorMap& map, const Pipeline& pipe) {
    const int thread = threadIdx.x - kConsumers * 128;
    if (thread >= 64) {
        if constexpr (kArranged) arrange(args, pipe, thread - 64);
    } else if (thread >= 32) {
        if constexpr (kSource != kSourceGlobal) produce_src(args, map, pipe, thread - 32);
    } else if constexpr (kOwnWeights) {
        return;
    } else if constexpr (kWgmma) {
        produce_weights(args, pipe, thread);
    } else {
        load_weights(args, pipe, thread);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    stream_fwd(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ StreamArgs args,
               const __grid_constant__ Output output) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Pipeline pipe(ptx::shared_address(shared));
    if (threadIdx.x == 0) init_barriers(pipe);
    __syncthreads();
    if (threadIdx.x >= kConsumers * 128) {
        if constexpr (kWgmma) ptx::give_registers<kProducerRegisters>();
        fill(args, map, pipe);
    } else {
        if constexpr (kWgmma) ptx::take_registers<kConsumerRegisters>();
        consume(args, output, pipe);
    }
}
