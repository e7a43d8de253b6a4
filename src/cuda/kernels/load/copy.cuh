#pragma once

// How the copy engine brings src and weights: into the stages, or src to where warps arrange it (stream_arrange.cuh).
// Weights also come by cp.async where there is no copy engine.
#include "schedule/shape.cuh"

namespace {

// ---- Weights ----

struct WeightCopy {
    const unsigned char* from;
    int to, bytes;
};

/// Copies that fill a stage with the weights of a group of taps: all at once, or two for each ring.
constexpr int kWeightCopies = kTurned ? kDPhases * 2 : 1;

/// Bytes of the packed weights of some uses, which lie one behind the other through the groups of a pass.
__device__ __forceinline__ constexpr int packed_bytes(int uses) {
    return uses * (kSteps * kParts) * kBlockBytes;
}

/// The weights for a stage of src, from its first pass on.
__device__ __forceinline__ const unsigned char* weights_of(const WeightWalk& walk) {
    const int64_t tile = static_cast<int64_t>(walk.item().group) * walk.args.co_tiles + walk.item().co_tile;
    const int64_t turn = kTurned ? tile : tile * kRotations + walk.turn();
    const int64_t pass = (turn * kChunks + walk.chunk()) * kPasses + walk.item().first_pass();
    return walk.args.weights + pass * packed_bytes(kUses);
}

/// `from` is where the group's begin. Where one rotation is packed, a ring's taps are turned by as many slots as the
/// slice says: those from there on come first, and those before behind them.
__device__ __forceinline__ WeightCopy weight_copy(const WeightWalk& walk, const unsigned char* from, int group,
                                                  int index) {
    if constexpr (!kTurned) return {from, 0, group_bytes(group)};
    const int ring = index / 2, length = kRingLength[ring];
    if (length == 0) return {nullptr, 0, 0};
    const int slot = kCoTile / 8 * eight_rows_stride(group), start = kRingStart[ring] * slot;
    const int turned = (length - walk.slice() % length) % length;
    if (index % 2 == 0) return {from + (start + turned * slot), start, (length - turned) * slot};
    return {from + start, start + (length - turned) * slot, turned * slot};
}

// ---- By the copy engine (sm_90a): the lanes of one warp share the copies of a stage ----

/// The first column of a staged plane.
__device__ __forceinline__ int first_column(const Item& item) {
    return item.q_w + kDeltaMinW;
}

/// TMA wants the start of a row on 16 bytes: the box of a plane begins some columns early, where tiles are aligned the
/// same number for all.
__device__ __forceinline__ int raw_shift(const Item& item) {
    const int start = kTileW % kRawAlign == 0 ? 0 : item.q_w;
    return (start + kDeltaMinW) & (kRawAlign - 1);
}

__device__ __forceinline__ int raw_column(const Item& item) {
    return first_column(item) - raw_shift(item);
}

__device__ __forceinline__ void copy_src(const SourceWalk& walk, const ptx::TensorMap& map, uint32_t to,
                                         uint32_t barrier, int lane) {
    const Item& item = walk.item();
    const int channel = walk.chunk() * kSteps * kChannelStep, row = item.q_h + kDeltaMinH;
    if constexpr (kSource == kSourceRuns) {
        constexpr int kBoxBytes = kRawBoxBytes / (kImages * kRunBoxes);
        for (int box = lane; box < kImages * kRunBoxes; box += 32)
            ptx::copy_box(to + box * kBoxBytes, map, (item.n + box / kRunBoxes) * kGroups + item.group, walk.slice(), 0,
                          channel, (row + box % kRunBoxes * kRunRows) * kWholeW, barrier);
    } else if constexpr (kHasPlanes) {
        constexpr bool kWhole = kSource == kSourceWhole;
        if (lane == 0)
            ptx::copy_box(to, map, item.n * kGroups + item.group, walk.slice() * kSlices, kWhole ? 0 : row, channel,
                          kWhole ? 0 : raw_column(item), barrier);
    } else if constexpr (kSwizzled && kInterleaved) {
        if (lane == 0) ptx::copy_box(to, map, walk.slice(), row, item.n, first_column(item), channel, barrier);
    } else {
        // All channels of a stage at once, or those of one core.
        constexpr int kBoxes = kSwizzled ? 1 : 2 * kSteps, kBoxChannels = 4 * kWordChannels;
        for (int box = lane; box < kBoxes * kImages; box += 32) {
            const int core = box % kBoxes, image = box / kBoxes;
            if (item.n + image >= walk.args.batch) continue;
            ptx::copy_box(to + core * kPlaneBytes + image * (kImagePitch * kPositionBytes), map,
                          (item.n + image) * walk.args.depth + walk.slice(), row, first_column(item), item.group,
                          channel + core * kBoxChannels, barrier);
        }
    }
}

/// Bytes that copy_src brings.
__device__ __forceinline__ int src_bytes(const SourceWalk& walk) {
    if constexpr (kHasPlanes) return kRawBoxBytes;
    const int images = kInterleaved ? kImages : min(kImages, walk.args.batch - walk.item().n);
    return images * 2 * kSteps * (kPlaneRows * kPitch * 16);
}

/// Where the copy engine puts src: into the stages, or to where warps take it from.
__device__ __forceinline__ void produce_src(const StreamArgs& args, const ptx::TensorMap& map, const Pipeline& pipe,
                                            int lane) {
    const Buffers& to = kHasRaw ? pipe.raw : pipe.src;
    int s = 0;
#pragma unroll 1
    for (SourceWalk walk(args); walk.next(); ++s) {
        to.wait_freed(s);
        if (lane == 0) ptx::barrier_arrive_expect(to.filled(s), src_bytes(walk));
        __syncwarp();
        copy_src(walk, map, to.at(s), to.filled(s), lane);
    }
}

/// Calls fill(walk, from, group, s) for each stage of weights when it is free. They are packed by the kernel before
/// this one, which may still be at it.
template <typename Fill>
__device__ __forceinline__ void for_weight_stages(const StreamArgs& args, const Pipeline& pipe, Fill fill) {
    RingPlace s;
    ptx::wait_for_previous();
#pragma unroll 1
    for (WeightWalk walk(args); walk.next();) {
        const unsigned char* from = weights_of(walk);
#pragma unroll 1
        for (int passes = walk.item().passes(); passes > 0; --passes) {
            for (int group = 0; group < kTapGroups; ++group) {
                pipe.weights.wait_freed(s);
                fill(walk, from, group, s);
                from += packed_bytes(group_uses(group));
                pipe.weights.next(s);
            }
        }
    }
}

/// All lanes share the copies of a stage where they are many, else one lane does without the others.
__device__ __forceinline__ void produce_weights(const StreamArgs& args, const Pipeline& pipe, int lane) {
    const Buffers& to = pipe.weights;
    if (!kTurned && lane > 0) return;
    for_weight_stages(args, pipe, [&](const WeightWalk& walk, const unsigned char* from, int group, RingPlace s) {
        if (!kTurned || lane == 0) ptx::barrier_arrive_expect(to.filled(s), group_bytes(group));
        if constexpr (!kTurned) return ptx::copy_bulk(to.at(s), from, group_bytes(group), to.filled(s));
        __syncwarp();
        for (int i = lane; i < kWeightCopies; i += 32) {
            const WeightCopy copy = weight_copy(walk, from, group, i);
            if (copy.bytes > 0) ptx::copy_bulk(to.at(s) + copy.to, copy.from, copy.bytes, to.filled(s));
        }
    });
}

/// Weights with cp.async: every lane's copies arrive at the barrier when they are done.
__device__ __forceinline__ void load_weights(const StreamArgs& args, const Pipeline& pipe, int lane) {
    const Buffers& to = pipe.weights;
    for_weight_stages(args, pipe, [&](const WeightWalk& walk, const unsigned char* from, int group, RingPlace s) {
        for (int i = 0; i < kWeightCopies; ++i) {
            const WeightCopy copy = weight_copy(walk, from, group, i);
            for (int byte = lane * 16; byte < copy.bytes; byte += 512)
                ptx::copy_async(to.at(s) + copy.to + byte, copy.from + byte);
        }
        ptx::copy_async_arrive(to.filled(s));
    });
}

} // namespace
