#pragma once

// What the roles hand to one another through shared memory: rings of stages, and the turns of consumers.
#include "schedule/geometry.cuh"

namespace {

/// A stage of a ring, by its index and by how often all stages were passed before. It is counted on from one stage to
/// the next, because a division takes long where it is waited for.
struct PipelineState {
    int index = 0, round = 0;
};

/// A ring of stages in shared memory, each with a barrier that says it is full and one that says it is empty again. A
/// stage is named by its state, or by its number counted through all rounds. wait_full() waits for what producers
/// store, wait_empty() until consumers have released what was in the stage a round before.
struct StageRing {
    uint32_t data, barriers;
    int bytes, count;

    __device__ PipelineState state(int s) const { return {s % count, s / count}; }
    __device__ PipelineState state(PipelineState p) const { return p; }
    __device__ PipelineState before(PipelineState p) const {
        return p.index > 0 ? PipelineState{p.index - 1, p.round} : PipelineState{count - 1, p.round - 1};
    }
    __device__ void next(PipelineState& p) const {
        if (++p.index < count) return;
        p.index = 0;
        ++p.round;
    }
    __device__ void skip(PipelineState& p, int stages) const {
        const int index = p.index + stages;
        p = {index % count, p.round + index / count};
    }

    template <typename State>
    __device__ uint32_t at(State p) const {
        return data + state(p).index * bytes;
    }
    template <typename State>
    __device__ uint32_t full(State p) const {
        return barriers + state(p).index * 16;
    }
    template <typename State>
    __device__ uint32_t empty(State p) const {
        return full(p) + 8;
    }
    template <typename State>
    __device__ void wait_full(State p) const {
        ptx::barrier_wait(full(p), state(p).round & 1);
    }
    template <typename State>
    __device__ void wait_empty(State p) const {
        const int round = state(p).round;
        if (round > 0) ptx::barrier_wait(empty(p), (round - 1) & 1);
    }
};

/// In the gathered form the consumer warpgroups alternate, output slice after output slice:
///
///     consumer 0    multiply 0   store 0      multiply 2   store 2
///     consumer 1                 multiply 1   store 1      multiply 3   …
///
/// Each waits for stages only when the other one has come past its own (`pass`): a barrier can be waited for when it is
/// one phase ahead, but not when it is two.
struct PingPong {
    uint32_t barriers; // one for each warpgroup
    __device__ uint32_t passed(int slice) const { return barriers + slice % kConsumers * 8; }
    __device__ void wait(int slice) const {
        if (slice > 0) ptx::barrier_wait(passed(slice - 1), (slice - 1) / kConsumers & 1);
    }
    /// Lets the other warpgroup go on to the next slice. All warps of this one call it.
    __device__ void pass(int slice) const {
        if (threadIdx.x % 32 == 0) ptx::barrier_arrive(passed(slice));
    }
};

/// Shared memory:
///
///     0          1024
///     barriers   stages of input | stages of weights | raw stages | table of elements | end: what stores need
struct Pipeline {
    StageRing in, weights, raw;
    PingPong ping_pong;
    uint32_t elements; // the table of load/elements.cuh
    uint32_t end;
    Geometry geometry; // of the stages
    __device__ __forceinline__ Pipeline(uint32_t shared, const TensorCoreArguments& args) : geometry(args) {
        const uint32_t barriers = shared, data = shared + 1024;
        in = {data, barriers, kStageBytes, kStages};
        weights = {in.data + kStages * kStageBytes, barriers + 256, kWeightStageBytes, kWeightStages};
        raw = {weights.data + kWeightStages * kWeightStageBytes, barriers + 512, kRawBytes, kRawStages};
        ping_pong = {barriers + 768};
        elements = raw.data + kRawStages * kRawBytes;
        end = elements + kTableBytes;
    }
    /// The ring through which the storer gets the channels of a warp, 8 in each stage (store/gathered_bulk_rows.cuh).
    __device__ __forceinline__ StageRing stored_by(int warp) const {
        constexpr int kBytes = 8 * kStoreBytes, kCount = 2;
        return {end + kOverread + warp * (kCount * kBytes), in.barriers + 896 + warp * (kCount * 16), kBytes, kCount};
    }
};

} // namespace
