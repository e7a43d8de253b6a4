#pragma once

// The producers in NCDHW. One thread has TMA bring raw boxes, rows of voxels in each channel, and four warps put each
// voxel of them, with its channels, into the plane that it belongs to:
//
//     a raw row of a channel     a b a b a b a b      stride 2: its voxels belong to two planes in turn
//     planes                     a a a a | b b b b    a voxel is 16 bytes of channels in each atom
//
// For a box of src there is a raw box of src, then one for each slice and phase along H of grad_dst in the block.
#include "outer/constants.cuh"

namespace {

constexpr OuterRaw kSrcRaw = {kSrc.channels, kSrc.h, kSrcRawW};
constexpr OuterRaw kDstRaw = {kDst.channels, kDst.h, kDstRawW};
static_assert(kChannelsLast || (8 % kStrideW == 0 && kSrcRawW % 16 == 8 && kDstRawW % 16 == 8),
              "the host chooses such rows");

/// Has TMA bring raw boxes, in the order in which they are transposed.
struct RawCopies {
    const ptx::TensorMap& src;
    const ptx::TensorMap& dst;
    const OuterArguments& args;
    const Item& item;
    BoxPlace box;
    int passed = 0, next = 0; // boxes, and raw boxes of this one

    /// Brings the next one, if there is one left, to `to`.
    __device__ __forceinline__ void bring_next(uint32_t to, uint32_t full) {
        if (passed == item.boxes) return;
        ptx::barrier_arrive_expect(full, next == 0 ? kSrcRaw.bytes() : kDstRaw.bytes());
        if (next == 0) {
            ptx::copy_box(to, src, box.image, box.d, box.h, item.src_channel(), box.w, full);
        } else {
            const int raw = item.block * kMostRaws + next - 1;
            ptx::copy_box(to, dst, box.image, box.d * kStrideD + kRawFirstD[raw], box.h * kStrideH + kRawFirstH[raw],
                          item.dst_channel(), box.w * kStrideW + kRawFirstW, full);
        }
        if (++next <= kBlockRaws[item.block]) return;
        next = 0;
        ++passed;
        box.advance(args);
    }
};

/// Where a lane puts the voxel that it has of each eight of a raw row.
struct LaneTarget {
    uint32_t plane; // the plane's first voxel, with the lane's two channels
    int first;      // which voxel of a row of the plane it has of the first eight; may lie before the row
    bool exists;    // whether the voxel belongs to a plane at all
};

__device__ __forceinline__ LaneTarget src_target(const Pipeline& pipe, int stage) {
    const int lane = threadIdx.x % 32;
    return {pipe.src(stage) + lane % 4 * 4, lane / 4, true};
}

/// `raw` counts the raw boxes of grad_dst of all blocks.
__device__ __forceinline__ LaneTarget dst_target(const Pipeline& pipe, int stage, int raw) {
    const int lane = threadIdx.x % 32, voxel = lane / 4, phase = voxel % kStrideW;
    const int plane = kRawPlane[raw * kStrideW + phase];
    return {pipe.dst(stage) + plane * kDst.bytes() + lane % 4 * 4,
            (voxel + kRawFirstW - kPhaseFirstW[phase]) / kStrideW, plane >= 0};
}

/// Transposes a raw box. A lane gives the address of a channel's eight voxels and gets two channels of one voxel, four
/// times. Warps share out the eights of all rows.
template <int kStride>
__device__ __forceinline__ void transpose(const OuterRaw& raw, const OuterPlane& plane, uint32_t from,
                                          const LaneTarget& target) {
    constexpr int kWarps = OuterThreads::kProducers / 32;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % kWarps;
    const int eights = raw.w / 8;
#pragma unroll 1
    for (int i = warp; i < raw.h * eights; i += kWarps) {
        const int row = i / eights, eight = i % eights, voxel = target.first + eight * (8 / kStride);
        const bool exists = target.exists && voxel >= 0 && voxel < plane.w;
        const uint32_t to = target.plane + (row * plane.w + voxel) * plane.voxel_bytes();
#pragma unroll
        for (int channel = 0; channel < raw.channels; channel += 32) {
            // The last 16 channels are loaded twice where 32 do not divide all of them.
            const int of_lane = channel + 32 <= raw.channels ? lane : lane % 16;
            uint32_t words[4];
            ptx::load_matrices_transposed(words, from + ((row * raw.channels + channel + of_lane) * raw.w + eight * 8) *
                                                            OuterPlane::kElementBytes);
#pragma unroll
            for (int atom = 0; atom < 4; ++atom)
                if (exists && channel + atom * 8 < raw.channels)
                    ptx::store_shared(to + (channel / 8 + atom) * plane.atom_bytes(), words[atom]);
        }
    }
}

__device__ __forceinline__ void produce_transposed(const ptx::TensorMap& src, const ptx::TensorMap& dst,
                                                   const OuterArguments& args, const Item& item, const Pipeline& pipe) {
    const bool copies = threadIdx.x == OuterThreads::kConsumers;
    const int raws = kBlockRaws[item.block];
    RawCopies copied = {src, dst, args, item, BoxPlace(args, item)};
    if (copies)
        for (int i = 0; i < kRawStages; ++i) copied.bring_next(pipe.raw(i), pipe.raw_full(i));
    StageCount<kStages> at;
    StageCount<kRawStages> raw_at;
#pragma unroll 1
    for (int passed = 0; passed < item.boxes; ++passed, at.advance()) {
        if (passed >= kStages) ptx::barrier_wait(pipe.empty(at.stage), at.parity ^ 1);
#pragma unroll 1
        for (int raw = 0; raw <= raws; ++raw, raw_at.advance()) {
            const uint32_t from = pipe.raw(raw_at.stage), full = pipe.raw_full(raw_at.stage);
            ptx::barrier_wait(full, raw_at.parity);
            if (raw == 0) {
                transpose<1>(kSrcRaw, kSrc, from, src_target(pipe, at.stage));
            } else {
                transpose<kStrideW>(kDstRaw, kDst, from, dst_target(pipe, at.stage, item.block * kMostRaws + raw - 1));
            }
            // Products read what was stored, and TMA writes over what was read.
            ptx::fence_shared_async();
            ptx::sync_warpgroup(kWarpgroups);
            if (copies) copied.bring_next(from, full);
        }
        if (copies) ptx::barrier_arrive(pipe.full(at.stage));
    }
}

} // namespace
