#pragma once

// Who does what in a CTA: one warpgroup fills the stages (two of its warps copy, two arrange), others consume them, and
// one may send what these have staged.
#include "load/rearrange.cuh"

namespace {

__device__ __forceinline__ void init_barriers(const Pipeline& pipe) {
    const auto init = [](const Buffers& buffers, int fills, int frees) {
        for (int s = 0; s < buffers.count; ++s) {
            ptx::barrier_init(buffers.filled(s), fills);
            ptx::barrier_init(buffers.freed(s), frees);
        }
    };
    constexpr int kReaders = 4 * kArrivals, kAllReaders = kBusyConsumers * kReaders;
    init(pipe.src, kArranged ? kArrangingWarps * kArrivals : 1, kGathered && !kKeeps ? kReaders : kAllReaders);
    if constexpr (!kOwnWeights) init(pipe.weights, kArrivals, kGathered ? kReaders : kAllReaders);
    init(pipe.raw, 1, kArrangingWarps);
    if constexpr (kGathered) {
        for (int step = 0; step < kConsumers; ++step) ptx::barrier_init(pipe.turns.given(step), 4);
        constexpr int kWarps = kPieces ? 4 : 0;
        for (int warp = 0; warp < kWarps; ++warp) init(pipe.pieces_of(warp), kRowSets * 32, 32);
    }
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

/// Puts zeros into every stage where nothing is ever written but is read: around rows that come whole, and behind them
/// all.
__device__ __forceinline__ void clear_halo(const Pipeline& pipe) {
    const uint32_t zeros[4] = {};
#pragma unroll 1
    for (int position = threadIdx.x; position < kLoaded + kTail; position += kThreads) {
        if (position < kLoaded && (!kWhole || in_whole_plane(voxel_at(position)))) continue;
#pragma unroll 1
        for (int i = 0; i < kStages * kStageBytes / kPlaneBytes; ++i) {
            constexpr int kCores = kPositionBytes / 16; // of a position, in which swizzling leaves them
            ptx::store_shared(pipe.src.data + i / kCores * (kPlaneBytes * kCores) + position * kPositionBytes +
                                  i % kCores * 16,
                              zeros);
        }
    }
    if constexpr (kWgmma) ptx::fence_shared_async();
}

template <typename Consume, typename Send>
__device__ __forceinline__ void run_roles(const ptx::TensorMap& map, const StreamArgs& args, Consume consume,
                                          Send send) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Pipeline pipe(ptx::shared_address(shared));
    if (threadIdx.x == 0) init_barriers(pipe);
    if constexpr (kTail > 0 || kWhole) clear_halo(pipe);
    __syncthreads();
    if (kPieces && threadIdx.x >= (kConsumers + 1) * 128) {
        if constexpr (kPieces) ptx::give_registers<kSenderRegisters>();
        send(pipe);
    } else if (threadIdx.x >= kConsumers * 128) {
        if constexpr (kWgmma) ptx::give_registers<kProducerRegisters>();
        fill(args, map, pipe);
    } else {
        if constexpr (kWgmma) ptx::take_registers<kConsumerRegisters>();
        consume(pipe);
    }
}

} // namespace
