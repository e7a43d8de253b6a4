#pragma once

// How packed weights get into their stages: by TMA, or by cp.async where there is none.
#include "schedule/pipeline.cuh"
#include "schedule/walks.cuh"

namespace {

/// A copy of packed weights, to `to` bytes behind where their stage begins.
struct WeightCopy {
    const unsigned char* from;
    int to, bytes;
};

/// Copies that fill a stage with the weights of a tap group: one, or two for each ring where they are rotated.
constexpr int kWeightCopies = kRotatesCopies ? kDPhases * 2 : 1;

/// Bytes of the packed weights of some taps, which lie one behind the other through the groups of a pass.
__device__ __forceinline__ constexpr int packed_bytes(int taps) {
    return taps * (kSteps * kParts) * kBlockBytes;
}

/// Where the packed weights for a stage of input begin: those of the first pass of its work item.
__device__ __forceinline__ const unsigned char* weights_of(const WeightWalk& walk) {
    const int64_t tile =
        static_cast<int64_t>(walk.item().group) * walk.args.grid.channel_tiles + walk.item().channel_tile;
    const int64_t rotation =
        kRotatesCopies ? tile * kInPlanesD + walk.slice() % kInPlanesD : tile * kRotations + walk.rotation();
    const int64_t pass = (rotation * kChunks + walk.chunk()) * kPasses + walk.item().first_pass();
    return walk.args.weights + pass * packed_bytes(kPassTaps);
}

/// The copy `index` of the kWeightCopies of a tap group, whose packed weights begin at `from`. Where one rotation is
/// packed, the slots of a ring are rotated by as many as the slice says, in two copies. A ring of three slots, rotated
/// by one:
///
///     packed      a b c
///     the stage   b c a     copy 0 brings b c, copy 1 brings a
__device__ __forceinline__ WeightCopy weight_copy(const WeightWalk& walk, const unsigned char* from, int group,
                                                  int index) {
    if constexpr (!kRotatesCopies) return {from, 0, group_bytes(group)};
    const int ring = index / 2, length = kRingLength[ring];
    if (length == 0) return {nullptr, 0, 0};
    const int slot = kTileChannels / 8 * eight_rows_stride(group), start = kRingStart[ring] * slot;
    const int rotated = (length - walk.slice() / kInPlanesD % length) % length;
    if (index % 2 == 0) return {from + (start + rotated * slot), start, (length - rotated) * slot};
    return {from + start, start + (length - rotated) * slot, rotated * slot};
}

/// Calls fill(walk, from, group, s) for each stage of weights when it is empty. The weights are packed by the kernel
/// before this one, which may still run.
template <typename Fill>
__device__ __forceinline__ void for_weight_stages(const TensorCoreArguments& args, const Pipeline& pipe, Fill fill) {
    PipelineState s;
    ptx::wait_for_previous();
#pragma unroll 1
    for (WeightWalk walk(args); walk.next();) {
        const unsigned char* from = weights_of(walk);
#pragma unroll 1
        for (int passes = walk.item().passes(); passes > 0; --passes) {
            for (int group = 0; group < kTapGroups; ++group) {
                pipe.weights.wait_empty(s);
                fill(walk, from, group, s);
                from += packed_bytes(group_taps(group));
                pipe.weights.next(s);
            }
        }
    }
}

/// The role of the warp that copies weights, by TMA. All lanes share the copies of a stage where they are many; else
/// one lane issues them, and the others have left.
__device__ __forceinline__ void copy_weights(const TensorCoreArguments& args, const Pipeline& pipe, int lane) {
    const StageRing& to = pipe.weights;
    if (!kRotatesCopies && lane > 0) return;
    for_weight_stages(args, pipe, [&](const WeightWalk& walk, const unsigned char* from, int group, PipelineState s) {
        if (!kRotatesCopies || lane == 0) ptx::barrier_arrive_expect(to.full(s), group_bytes(group));
        if constexpr (!kRotatesCopies) return ptx::copy_bulk(to.at(s), from, group_bytes(group), to.full(s));
        __syncwarp();
        for (int i = lane; i < kWeightCopies; i += 32) {
            const WeightCopy copy = weight_copy(walk, from, group, i);
            if (copy.bytes > 0) ptx::copy_bulk(to.at(s) + copy.to, copy.from, copy.bytes, to.full(s));
        }
    });
}

/// The role of the warp that copies weights, by cp.async. The copies of every lane arrive at the barrier when they are
/// done.
__device__ __forceinline__ void load_weights(const TensorCoreArguments& args, const Pipeline& pipe, int lane) {
    const StageRing& to = pipe.weights;
    for_weight_stages(args, pipe, [&](const WeightWalk& walk, const unsigned char* from, int group, PipelineState s) {
        for (int i = 0; i < kWeightCopies; ++i) {
            const WeightCopy copy = weight_copy(walk, from, group, i);
            for (int byte = lane * 16; byte < copy.bytes; byte += 512)
                ptx::copy_async(to.at(s) + copy.to + byte, copy.from + byte);
        }
        ptx::copy_async_arrive(to.full(s));
    });
}

} // namespace
