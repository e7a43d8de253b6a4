#pragma once

// Who does what in a CTA of the streamed and of the gathered form.
//
//     warpgroups 0 and 1   consumers: wait for stages, multiply, finish, store
//     warpgroup 2          producer: warp 0 copies weights, warp 1 copies input, warps 2 and 3 rearrange input
//     warpgroup 3          only in some configs: four more warps that rearrange input, or the storer of the gathered
//                          form, which sends rows that consumers have put into shared memory
//
//     weights ── producer warp 0 ──────────────────────────────────────► stages of weights ─┐
//     input ──── producer warp 1 ──► raw stages ── rearranging warps ──► stages of input ───┴► consumers ──► output
//
// Input that TMA writes as products read it (Source::swizzled) needs no raw stages and no rearranging, and input that
// no TMA takes (Source::global) is loaded by the rearranging warps.
#include "load/rearrange.cuh"
#include "load/weights.cuh"

namespace {

__device__ __forceinline__ void init_barriers(const Pipeline& pipe) {
    const auto init = [](const StageRing& ring, int fills, int releases) {
        for (int s = 0; s < ring.count; ++s) {
            ptx::barrier_init(ring.full(s), fills);
            ptx::barrier_init(ring.empty(s), releases);
        }
    };
    constexpr int kReaders = 4 * kArrivals;
    const int all_readers = pipe.geometry.consumers() * kReaders;
    init(pipe.in, kRearranged ? kRearrangingWarps * kArrivals : 1,
         kGathered && !kRetainsSlices ? kReaders : all_readers);
    if constexpr (!kOwnWeights) init(pipe.weights, kArrivals, kGathered ? kReaders : all_readers);
    init(pipe.raw, 1, kRearrangingWarps);
    if constexpr (kGathered) {
        for (int slice = 0; slice < kConsumers; ++slice) ptx::barrier_init(pipe.ping_pong.passed(slice), 4);
        constexpr int kWarps = kHasStorer ? 4 : 0;
        for (int warp = 0; warp < kWarps; ++warp) init(pipe.stored_by(warp), kRowSets * 32, 32);
    }
    if constexpr (kWgmma) ptx::fence_barrier_init();
}

__device__ __forceinline__ void produce(const TensorCoreArguments& args, const ptx::TensorMap& map,
                                        const Pipeline& pipe) {
    const int thread = threadIdx.x - kConsumers * 128;
    if (thread >= 64) {
        if constexpr (kRearranged) rearrange(args, pipe, thread - 64);
    } else if (thread >= 32) {
        if constexpr (kRanges) {
            copy_ranges(args, pipe, thread - 32);
        } else if constexpr (kSource != Source::global) {
            copy_input(args, map, pipe, thread - 32);
        }
    } else if constexpr (kOwnWeights) {
        return;
    } else if constexpr (kWgmma) {
        copy_weights(args, pipe, thread);
    } else {
        load_weights(args, pipe, thread);
    }
}

/// Puts zeros into every stage where products read but producers never write: around rows that come whole, and behind
/// the last row.
__device__ __forceinline__ void clear_halo(const Pipeline& pipe) {
    const Geometry& geometry = pipe.geometry;
    const int loaded = geometry.loaded(), cleared = loaded + geometry.tail();
    const uint32_t zeros[4] = {};
#pragma unroll 1
    for (int at = threadIdx.x; at < kStagedPlanes * cleared; at += kThreads) {
        const StagedPosition staged(at, cleared);
        if (staged.of_plane < loaded &&
            (!kWholeRows || in_whole_plane(voxel_at(geometry, staged.of_plane), staged.plane)))
            continue;
#pragma unroll 1
        for (int i = 0; i < kStages * kStageBytes / kPlaneBytes; ++i) {
            constexpr int kCores = kPositionBytes / 16; // of a position, in which swizzling leaves them
            ptx::store_shared(pipe.in.data + i / kCores * (kPlaneBytes * kCores) +
                                  staged.position(geometry) * kPositionBytes + i % kCores * 16,
                              zeros);
        }
    }
    if constexpr (kWgmma) ptx::fence_shared_async();
}

/// Makes the barriers and runs each thread's role: consume(pipe) is a consumer's, send(pipe) a storer's.
template <typename Consume, typename Send>
__device__ __forceinline__ void run_roles(const ptx::TensorMap& map, const TensorCoreArguments& args, Consume consume,
                                          Send send) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Pipeline pipe(ptx::shared_address(shared), args);
    if (threadIdx.x == 0) init_barriers(pipe);
    if constexpr (kAnySize || kTail > 0 || kWholeRows) clear_halo(pipe);
    if constexpr (kFilledCores < kCores) clear_spare_cores(pipe);
    if constexpr (kRanges) clear_raw_zeros(pipe);
    __syncthreads();
    if (kHasStorer && threadIdx.x >= (kConsumers + 1) * 128) {
        if constexpr (kHasStorer) ptx::give_registers<kStorerRegisters>();
        send(pipe);
    } else if (kHasRearrangers && threadIdx.x >= (kConsumers + 1) * 128) {
        if constexpr (kHasRearrangers) {
            ptx::give_registers<kProducerRegisters>();
            rearrange(args, pipe, threadIdx.x - (kConsumers + 1) * 128 + 64); // behind those of the producer
        }
    } else if (threadIdx.x >= kConsumers * 128) {
        if constexpr (kWgmma) ptx::give_registers<kProducerRegisters>();
        produce(args, map, pipe);
    } else {
        if constexpr (kWgmma) ptx::take_registers<kConsumerRegisters>();
        consume(pipe);
    }
}

} // namespace
