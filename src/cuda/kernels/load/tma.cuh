#pragma once

// How TMA brings the input: into the stages as products read them, or into raw stages, from which warps rearrange it
// (load/rearrange.cuh). The lanes of one warp share the copies of a stage.
#include "schedule/pipeline.cuh"
#include "schedule/walks.cuh"

namespace {

/// The column, and the row, of the input at position 0 of input plane 0. They may be negative.
__device__ __forceinline__ int first_column(const Item& item) {
    return (item.q_w + kShiftMinW) * kInStrideW;
}
__device__ __forceinline__ int first_row(const Item& item) {
    return (item.q_h + kShiftMinH) * kInStrideH;
}

/// Columns by which a box begins before the first column, since TMA wants the start of a row on 16 bytes. Where tiles
/// are aligned it is the same number for all.
__device__ __forceinline__ int raw_shift(const Item& item) {
    const int start = !kAnySize && kTileW * kInStrideW % kRawAlign == 0 ? 0 : item.q_w;
    return ((start + kShiftMinW) * kInStrideW) & (kRawAlign - 1);
}

__device__ __forceinline__ int raw_column(const Item& item) {
    return first_column(item) - raw_shift(item);
}

/// Starts the copies of a stage, to the byte `to` of shared memory. `barrier` counts their bytes.
__device__ __forceinline__ void copy_boxes(const InputWalk& walk, const ptx::TensorMap& map, uint32_t to,
                                           uint32_t barrier, int lane) {
    const Item& item = walk.item();
    const Geometry geometry(walk.args);
    const int channel = walk.chunk() * kSteps * kChannelStep, row = first_row(item), slice = depth_of(walk.slice());
    if constexpr (kSource == Source::whole_rows) {
        constexpr int kBoxBytes = kRawBoxBytes / (kImages * kPlaneBoxes);
        for (int box = lane; box < kImages * kPlaneBoxes; box += 32)
            ptx::copy_box(to + box * kBoxBytes, map, (item.n + box / kPlaneBoxes) * kGroups + item.group, slice, 0,
                          channel, (row + box % kPlaneBoxes * kBoxRows) * kInW, barrier);
    } else if constexpr (kHasPlanes) {
        constexpr bool kWholePlanes = kSource == Source::whole_planes;
        if (lane == 0)
            ptx::copy_box(to, map, item.n * kGroups + item.group, slice * kSlices, kWholePlanes ? 0 : row, channel,
                          kWholePlanes ? 0 : raw_column(item), barrier);
    } else if constexpr (kSwizzled && kInterleaved) {
        for (int plane = lane; plane < kStagedPlanes; plane += 32)
            ptx::copy_box(to + plane * (kInPlanePitch * kPositionBytes), map, slice, row + plane_row(plane), item.n,
                          first_column(item) + plane_column(plane), channel, barrier);
    } else {
        // All channels of a stage at once, or those of one core matrix.
        constexpr int kBoxes = kSwizzled ? 1 : 2 * kSteps, kBoxChannels = 4 * kWordChannels;
        const int images = geometry.images();
        for (int box = lane; box < kBoxes * images * kStagedPlanes; box += 32) {
            const int core = box % kBoxes, image = box / kBoxes % images, plane = box / (kBoxes * images);
            if (item.n + image >= walk.args.batch) continue;
            const int position = plane * geometry.plane_pitch() + image * geometry.image_pitch();
            ptx::copy_box(to + core * kPlaneBytes + position * kPositionBytes, map,
                          (item.n + image) * walk.args.in_extents.d + slice, row + plane_row(plane),
                          first_column(item) + plane_column(plane), item.group, channel + core * kBoxChannels, barrier);
        }
    }
}

/// Bytes that copy_boxes brings to a stage.
__device__ __forceinline__ int box_bytes(const InputWalk& walk) {
    const Geometry geometry(walk.args);
    if constexpr (kHasPlanes) return geometry.raw_bytes();
    const int images = kInterleaved ? kImages : min(geometry.images(), walk.args.batch - walk.item().n);
    return kStagedPlanes * images * 2 * kSteps * (geometry.rows() * geometry.pitch() * 16);
}

/// The role of the warp that copies input: fills the raw stages, or the stages where nothing is rearranged.
__device__ __forceinline__ void copy_input(const TensorCoreArguments& args, const ptx::TensorMap& map,
                                           const Pipeline& pipe, int lane) {
    const StageRing& to = kHasRaw ? pipe.raw : pipe.in;
    int s = 0;
#pragma unroll 1
    for (InputWalk walk(args); walk.next(); ++s) {
        to.wait_empty(s);
        if (lane == 0) ptx::barrier_arrive_expect(to.full(s), box_bytes(walk));
        __syncwarp();
        copy_boxes(walk, map, to.at(s), to.full(s), lane);
    }
}

} // namespace
