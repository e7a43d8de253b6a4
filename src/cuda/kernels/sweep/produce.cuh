#pragma once

// The producers: for each slice of the fixed tensor they wait until its stage and its slots are free, load it with the
// slices of the moved tensor that it needs, and say that the stage is full.
#include "sweep/load_fixed.cuh"
#include "sweep/load_moved.cuh"

namespace {

/// How far the consumers have come, as a producer knows it. What they have released may be overwritten.
struct Released {
    Walk walk; // at the first slice that they have not released

    /// Waits until the stage of the slice `at`, and the slots of all that it meets, are free.
    __device__ __forceinline__ void wait(const Pipeline& pipe, const Walk& at) {
        while (walk.passed <= at.passed - kStages || walk.first < at.first + kDepth.met() - kSlots) {
            ptx::barrier_wait(pipe.empty(walk.stage()), walk.parity());
            walk.advance();
        }
    }
};

/// Arrives for what this thread has stored in a stage, and once more when its copies are done.
__device__ __forceinline__ void signal_full(const Pipeline& pipe, int stage) {
    ptx::fence_shared_async();
    ptx::barrier_arrive(pipe.full(stage));
    if constexpr (kHasCopies) ptx::copy_async_arrive(pipe.full(stage));
}

struct Tensors {
    FixedTensor fixed;
    MovedTensor moved;

    __device__ __forceinline__ explicit Tensors(const SweepArguments& args)
        : fixed(args.fixed, args.fixed_extents, args.images), moved(args.moved, args.moved_extents, args.images) {}
};

/// Loads the slice that `walk` has come to and the slices of the moved tensor that it needs. The first voxel of the
/// tile meets the voxel met = stride · fixed − padding + tap · dilation through the first tap of the block.
__device__ __forceinline__ void load_slice(const Tensors& tensors, const Item& item, const Pipeline& pipe,
                                           const TilePlace& tile, const Walk& walk, int thread) {
    const int h = tile.h * kTileH, w = tile.w * kPlane.tile_w();
    const int met_h = h * kMovedStrideH - kMovedPaddingH + item.tap_h * kDilationH;
    const int met_w = w * kMovedStrideW - kMovedPaddingW + item.tap_w * kDilationW;
    const int met_d = walk.d * kMovedStrideD - kMovedPaddingD + item.tap_d * kDilationD;
    load_fixed({tensors.fixed, tile.image, int64_t{item.group} * kFixedChannels + item.fixed_first,
                kFixedChannels - item.fixed_first, walk.d},
               h, w, pipe.fixed(walk.stage()), thread);
    load_moved({tensors.moved, pipe, tile.image, int64_t{item.group} * kMovedChannels + item.moved_first,
                kMovedChannels - item.moved_first, met_d, walk.first, walk.begins_tile()},
               met_h, met_w, thread);
}

__device__ __forceinline__ void produce(const SweepArguments& args, const Item& item, const Pipeline& pipe,
                                        int thread) {
    const Tensors tensors(args);
    TilePlace tile(args, item);
    Released released = {Walk(args, item)};
#pragma unroll 1
    for (Walk walk(args, item); walk.passed < item.slices; walk.advance()) {
        if (walk.passed > 0 && walk.d == 0) tile.advance(args);
        released.wait(pipe, walk);
        load_slice(tensors, item, pipe, tile, walk, thread);
        signal_full(pipe, walk.stage());
    }
}

} // namespace
