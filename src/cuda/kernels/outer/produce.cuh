#pragma once

// The producer in channels_last_3d: one thread has TMA bring box after box, each with the planes of grad_dst that it
// meets, to where products read them.
#include "outer/constants.cuh"

namespace {

struct VoxelPlace {
    int image, d, h, w;
};

/// Has TMA bring a plane that begins at a voxel, atom by atom, from channel `channel` of the tensor on. What lies
/// outside is zero.
__device__ __forceinline__ void copy_plane(const OuterPlane& plane, uint32_t to, const ptx::TensorMap& map,
                                           const VoxelPlace& at, int channel, uint32_t full) {
#pragma unroll 1
    for (int atom = 0; atom < plane.atoms(); ++atom)
        ptx::copy_box(to + atom * plane.atom_bytes(), map, at.image, at.d, at.h, at.w,
                      channel + atom * plane.atom_channels(), full);
}

constexpr int copied_bytes(const OuterPlane& plane) {
    return plane.h * plane.w * plane.channels * OuterPlane::kElementBytes;
}

__device__ __forceinline__ void produce(const ptx::TensorMap& src, const ptx::TensorMap& dst,
                                        const OuterArguments& args, const Item& item, const Pipeline& pipe) {
    if (threadIdx.x != OuterThreads::kConsumers) return;
    const int planes = kBlockPlanes[item.block];
    BoxPlace box(args, item);
    StageCount<kStages> at;
#pragma unroll 1
    for (int passed = 0; passed < item.boxes; ++passed, at.advance(), box.advance(args)) {
        const uint32_t full = pipe.full(at.stage);
        if (passed >= kStages) ptx::barrier_wait(pipe.empty(at.stage), at.parity ^ 1);
        ptx::barrier_arrive_expect(full, copied_bytes(kSrc) + planes * copied_bytes(kDst));
        copy_plane(kSrc, pipe.src(at.stage), src, {box.image, box.d, box.h, box.w}, item.src_channel(), full);
#pragma unroll 1
        for (int plane = 0; plane < planes; ++plane) {
            const int first = item.block * kMostPlanes + plane;
            copy_plane(kDst, pipe.dst(at.stage) + plane * kDst.bytes(), dst,
                       {box.image, box.d * kStrideD + kPlaneFirstD[first], box.h * kStrideH + kPlaneFirstH[first],
                        box.w * kStrideW + kPlaneFirstW[first]},
                       item.dst_channel(), full);
        }
    }
}

} // namespace
