#pragma once

// The producer: one thread has TMA bring box after box, each with the planes of grad_dst that it meets.
#include "outer/constants.cuh"

namespace {

/// The box that a CTA has come to: an image, a slice, and a row and a column of boxes.
struct BoxPlace {
    int image, d, h, w;

    __device__ __forceinline__ BoxPlace(const OuterArguments& args, const Item& item) {
        int64_t box = item.first_box;
        w = static_cast<int>(box % args.boxes_w);
        box /= args.boxes_w;
        h = static_cast<int>(box % args.boxes_h);
        box /= args.boxes_h;
        d = static_cast<int>(box % args.depth);
        image = static_cast<int>(box / args.depth);
    }
    __device__ __forceinline__ void advance(const OuterArguments& args) {
        if (++w < args.boxes_w) return;
        w = 0;
        if (++h < args.boxes_h) return;
        h = 0;
        if (++d < args.depth) return;
        d = 0;
        ++image;
    }
};

/// Where a plane begins in its tensor.
struct VoxelPlace {
    int image, d, h, w;
};

/// Has TMA bring a plane, atom by atom, from channel `channel` of the tensor on. What lies outside is zero.
template <typename Plane>
__device__ __forceinline__ void copy_plane(const Plane& plane, uint32_t to, const ptx::TensorMap& map, VoxelPlace at,
                                           int channel, uint32_t full) {
#pragma unroll 1
    for (int atom = 0; atom < plane.atoms(); ++atom)
        ptx::copy_box(to + atom * plane.atom_bytes(), map, at.image, at.d, at.h, at.w,
                      channel + atom * plane.atom_channels(), full);
}

__device__ __forceinline__ void produce(const ptx::TensorMap& src, const ptx::TensorMap& dst,
                                        const OuterArguments& args, const Item& item, const Pipeline& pipe) {
    const int src_channel = item.group * kSrcChannels + item.src_first();
    const int dst_channel = item.group * kDstChannels + item.dst_first();
    const int planes = kBlockPlanes[item.block];
    BoxPlace box(args, item);
    StageCount at;
#pragma unroll 1
    for (int passed = 0; passed < item.boxes; ++passed, at.advance(), box.advance(args)) {
        const uint32_t full = pipe.full(at.stage);
        if (passed >= kStages) ptx::barrier_wait(pipe.empty(at.stage), at.parity ^ 1);
        ptx::barrier_arrive_expect(full, kSrc.copied_bytes() + planes * kDst.copied_bytes());
        const int h = box.h * kBoxH, w = box.w * kBoxW;
        copy_plane(kSrc, pipe.src(at.stage), src, {box.image, box.d, h, w}, src_channel, full);
#pragma unroll 1
        for (int plane = 0; plane < planes; ++plane) {
            const int first = item.block * kMostPlanes + plane;
            copy_plane(kDst, pipe.dst(at.stage) + plane * kDst.bytes(), dst,
                       {box.image, box.d * kStrideD + kPlaneFirstD[first], h * kStrideH + kPlaneFirstH[first],
                        w * kStrideW + kPlaneFirstW[first]},
                       dst_channel, full);
        }
    }
}

} // namespace
