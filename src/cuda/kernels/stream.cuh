// fwd on Hopper, streamed along D (docs/design.md). A CTA owns a tile of kTileH × kTileW positions q of a plane and some
// output channels, and walks the source slices. Each slice multiplies, for every tap (h, w), the weights of all taps
// along D at once: the accumulators hold one slot per open output slice, a ring per D phase. When a slice is done, one
// slot per D phase is finished, gets the epilogue, is stored and cleared.
//
// Constants from the host (stream.cpp): kCi kCo kGroups kChannelStep kChunks kCoTile kN kRotations kMTiles kConsumers
// kTileH kTileW kPlaneRows kPlanePitch kStages kOffsets kOffsetGroup kOffsetWords kUseBegin kUsePhase kUses kHwPhases kAccPhase
// kAccPhases kStrideD … kPaddingW kDPhases kRingLength kRingStart kRingDelta kDeltaMinD; the functions wgmma() and
// epilogue().
#include "ptx.cuh"

namespace {

constexpr int kThreads = (kConsumers + 1) * 128;
constexpr int kPlaneWords = kPlaneRows * kPlanePitch;
constexpr int kSrcBytes = kChannelStep * kPlaneWords * 4;
constexpr int kSrcRoom = (kSrcBytes + 127) / 128 * 128;
constexpr int kBlockBytes = kN * kChannelStep * 4;
constexpr int kWeightBytes = kUses * kBlockBytes;
constexpr int kStageBytes = kSrcRoom + (kWeightBytes + 127) / 128 * 128;
constexpr int kTileVoxels = kTileH * kTileW;

struct StreamArgs {
    const float* weights;
    const float* bias;
    float* dst;
    int64_t dst_slice;  // elements of an output slice
    int batch, depth;
    int dst_d, dst_h, dst_w;
    int q_begin_d, q_end_d, q_begin_h, q_end_h, q_begin_w, q_end_w;
    int tiles_h, tiles_w, segments, segment_length, co_tiles;
};

/// One work item: a tile of the plane, a range of q along D, some output channels of a group, one image.
struct Item {
    int co_first, group, q_w, q_h, q_d, q_d_end, n;
};

__device__ __forceinline__ Item item_at(const StreamArgs& args, int index) {
    Item item;
    item.co_first = index % args.co_tiles * kCoTile;
    index /= args.co_tiles;
    item.group = index % kGroups;
    index /= kGroups;
    item.q_w = args.q_begin_w + index % args.tiles_w * kTileW;
    index /= args.tiles_w;
    item.q_h = args.q_begin_h + index % args.tiles_h * kTileH;
    index /= args.tiles_h;
    item.q_d = args.q_begin_d + index % args.segments * args.segment_length;
    item.q_d_end = min(item.q_d + args.segment_length, args.q_end_d);
    item.n = index / args.segments;
    return item;
}

__device__ __forceinline__ int item_count(const StreamArgs& args) {
    return args.co_tiles * kGroups * args.tiles_w * args.tiles_h * args.segments * args.batch;
}

/// The first source column of a box: TMA wants it on 16 bytes, the rest goes into the lanes' offsets.
__device__ __forceinline__ int box_column(const Item& item) {
    return (item.q_w + kDeltaMinW) & ~3;
}

/// Stages as the three roles see them, in the same order.
struct Pipeline {
    uint32_t base;
    __device__ uint32_t stage(int s) const { return base + s % kStages * kStageBytes; }
    __device__ uint32_t filled(int s) const { return base + kStages * kStageBytes + s % kStages * 8; }
    __device__ uint32_t rounded(int s) const { return filled(s) + kStages * 8; }
    __device__ uint32_t freed(int s) const { return filled(s) + kStages * 16; }
    __device__ static int parity(int s) { return s / kStages & 1; }
};

template <typename Body>
__device__ __forceinline__ void for_each_slice(const StreamArgs& args, const Item& item, Body body) {
    const int first = max(item.q_d + kDeltaMinD, 0), last = min(item.q_d_end - 1, args.depth - 1);
    for (int slice = first; slice <= last; ++slice) body(slice);
}

__device__ __forceinline__ void produce(const StreamArgs& args, const ptx::TensorMap& map, Pipeline pipe) {
    int s = 0;
    for (int i = blockIdx.x; i < item_count(args); i += gridDim.x) {
        const Item item = item_at(args, i);
        const int64_t group_tile = static_cast<int64_t>(item.group) * args.co_tiles + item.co_first / kCoTile;
        for_each_slice(args, item, [&](int slice) {
            const float* weights = args.weights + (group_tile * kRotations + slice % kRotations) * kChunks * (kWeightBytes / 4);
            for (int chunk = 0; chunk < kChunks; ++chunk, ++s) {
                if (s >= kStages) ptx::barrier_wait(pipe.freed(s), Pipeline::parity(s - kStages));
                ptx::barrier_arrive_expect(pipe.filled(s), kSrcBytes + kWeightBytes);
                ptx::copy_box(pipe.stage(s), map, item.n, item.group * kCi + chunk * kChannelStep, slice,
                              item.q_h + kDeltaMinH, box_column(item), pipe.filled(s));
                ptx::copy_bulk(pipe.stage(s) + kSrcRoom, weights + chunk * (kWeightBytes / 4), kWeightBytes,
                               pipe.filled(s));
            }
        });
    }
}

/// The tensor cores truncate: three warps round each stage to tf32, in place.
__device__ __forceinline__ void round_stages(const StreamArgs& args, Pipeline pipe, int thread) {
    int s = 0;
    for (int i = blockIdx.x; i < item_count(args); i += gridDim.x) {
        for_each_slice(args, item_at(args, i), [&](int) {
            for (int chunk = 0; chunk < kChunks; ++chunk, ++s) {
                ptx::barrier_wait(pipe.filled(s), Pipeline::parity(s));
#pragma unroll 4
                for (int offset = thread * 16; offset < kSrcBytes; offset += 96 * 16) {
                    ptx::round_to_tf32_in_place(pipe.stage(s) + offset);
                }
                ptx::barrier_arrive(pipe.rounded(s));
            }
        });
    }
}

/// The two voxels of an m64 tile whose rows this lane holds.
struct LaneVoxels {
    int words[2];  // in the plane
    int outputs[2];  // of the phases (0, 0), in an output slice; the other phases lie at fixed distances
    uint32_t stored[2];  // a bit for each phase (h, w) whose output exists
};

struct Accumulators {
    float sums[kMTiles][kAccPhases][kN / 2];
};

/// Multiplies kOffsetGroup offsets of an m64 tile, then the next tile's, then the next offsets. The fragments of one
/// group are loaded while the wgmmas of the group before run.
template <int Step>
__device__ __forceinline__ void multiply_step(Accumulators& acc, uint32_t (&a)[2][kOffsetGroup][4],
                                              const LaneVoxels (&voxels)[kMTiles], uint32_t plane, uint64_t weights) {
    constexpr int m = Step % kMTiles, first = Step / kMTiles * kOffsetGroup;
    if constexpr (first < kOffsets) {
        constexpr int count = kOffsets - first < kOffsetGroup ? kOffsets - first : kOffsetGroup;
        uint32_t(&fragments)[kOffsetGroup][4] = a[Step % 2];
        const uint32_t upper = plane + voxels[m].words[0] * 4, lower = plane + voxels[m].words[1] * 4;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            fragments[i][0] = ptx::load_shared(upper + kOffsetWords[first + i] * 4);
            fragments[i][1] = ptx::load_shared(lower + kOffsetWords[first + i] * 4);
            fragments[i][2] = ptx::load_shared(upper + (kOffsetWords[first + i] + 4 * kPlaneWords) * 4);
            fragments[i][3] = ptx::load_shared(lower + (kOffsetWords[first + i] + 4 * kPlaneWords) * 4);
        }
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < count; ++i) {
#pragma unroll
            for (int use = kUseBegin[first + i]; use < kUseBegin[first + i + 1]; ++use) {
                wgmma(acc.sums[m][kAccPhase[kUsePhase[use]]], fragments[i], weights + (use * kBlockBytes >> 4));
            }
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        multiply_step<Step + 1>(acc, a, voxels, plane, weights);
    }
}

/// The sum at a place that is a constant once the loops are unrolled, which is cleared; 0 where there are no taps.
template <int Slot>
__device__ __forceinline__ float take_sum(Accumulators& acc, int m, int phase, int index) {
    float value = 0.f;
    if constexpr (Slot >= 0) {
        if (kAccPhase[phase] >= 0) {
            float& sum = acc.sums[m][kAccPhase[phase] < 0 ? 0 : kAccPhase[phase]][Slot * kCoTile / 2 + index];
            value = sum;
            sum = 0.f;
        }
    }
    return value;
}

/// Stores one D phase's finished output slice and clears its slot. Slot -1: a phase without taps, all zero.
template <int Slot>
__device__ __forceinline__ void store_slice(Accumulators& acc, const StreamArgs& args, const Item& item,
                                            const LaneVoxels (&voxels)[kMTiles], int d, bool keep) {
    const int co_first = item.co_first + 2 * (threadIdx.x % 4);
    const int channel_first = item.group * kCo + co_first;
    const int64_t channel_stride = args.dst_d * args.dst_slice;
    float* const slice = args.dst + (static_cast<int64_t>(item.n) * kGroups * kCo + channel_first) * channel_stride + d * args.dst_slice;
#pragma unroll
    for (int j = 0; j < kCoTile / 4; ++j) {
        const int co = j / 2 * 8 + j % 2;  // past co_first
        const bool exists = keep && co_first + co < kCo;
        const float bias = exists && args.bias ? __ldg(args.bias + channel_first + co) : 0.f;
        float* const channel = slice + co * channel_stride;
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                float* const voxel = channel + voxels[m].outputs[row];
                const uint32_t stored = exists ? voxels[m].stored[row] : 0;
#pragma unroll
                for (int phase = 0; phase < kHwPhases; ++phase) {
                    const float sum = take_sum<Slot>(acc, m, phase, j / 2 * 4 + row * 2 + j % 2);
                    if (stored >> phase & 1) {
                        voxel[phase / kStrideW * args.dst_w + phase % kStrideW] = epilogue(sum + bias, channel_first + co);
                    }
                }
            }
        }
    }
}

/// After slice `slice` (= Rotation mod kRotations) D phase r has finished q = slice - kRingDelta[r].
template <int Rotation, int R>
__device__ __forceinline__ void finish_phases(Accumulators& acc, const StreamArgs& args, const Item& item,
                                              const LaneVoxels (&voxels)[kMTiles], int slice) {
    if constexpr (R < kDPhases) {
        const int q = slice - kRingDelta[R];
        const int d = kStrideD * q + R - kPaddingD;
        const bool keep = q >= item.q_d && q < item.q_d_end && d >= 0 && d < args.dst_d;
        if constexpr (kRingLength[R] == 0) {
            store_slice<-1>(acc, args, item, voxels, d, keep);
        } else {
            constexpr int slot = (Rotation - kRingDelta[R] + 64 * kRingLength[R]) % kRingLength[R];
            store_slice<kRingStart[R] + slot>(acc, args, item, voxels, d, keep);
        }
        finish_phases<Rotation, R + 1>(acc, args, item, voxels, slice);
    }
}

template <int Rotation>
__device__ __forceinline__ void finish_slice(Accumulators& acc, const StreamArgs& args, const Item& item,
                                             const LaneVoxels (&voxels)[kMTiles], int slice, int rotation) {
    if constexpr (Rotation < kRotations) {
        if (rotation == Rotation) {
            finish_phases<Rotation, 0>(acc, args, item, voxels, slice);
        } else {
            finish_slice<Rotation + 1>(acc, args, item, voxels, slice, rotation);
        }
    }
}

__device__ __forceinline__ void place_voxels(const StreamArgs& args, const Item& item, LaneVoxels (&voxels)[kMTiles]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int shift = item.q_w + kDeltaMinW - box_column(item);
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int voxel = ((warp / 4 * kMTiles + m) * 4 + warp % 4) * 16 + lane / 4 + row * 8;
            const bool inside = voxel < kTileVoxels;
            const int h = inside ? voxel / kTileW : 0, w = inside ? voxel % kTileW : 0;
            const bool exists = inside && item.q_h + h < args.q_end_h && item.q_w + w < args.q_end_w;
            const int dst_h = kStrideH * (item.q_h + h) - kPaddingH, dst_w = kStrideW * (item.q_w + w) - kPaddingW;
            voxels[m].words[row] = h * kPlanePitch + w + shift;
            voxels[m].outputs[row] = dst_h * args.dst_w + dst_w;
            voxels[m].stored[row] = 0;
#pragma unroll
            for (int phase = 0; phase < kHwPhases; ++phase) {
                const int h_at = dst_h + phase / kStrideW, w_at = dst_w + phase % kStrideW;
                const bool stored = exists && h_at >= 0 && h_at < args.dst_h && w_at >= 0 && w_at < args.dst_w;
                voxels[m].stored[row] |= stored ? 1u << phase : 0u;
            }
        }
    }
}

__device__ __forceinline__ void consume(const StreamArgs& args, Pipeline pipe) {
    Accumulators acc;
    uint32_t a[2][kOffsetGroup][4];
    LaneVoxels voxels[kMTiles];
    int s = 0;
    const uint32_t channel = threadIdx.x % 4;
    for (int i = blockIdx.x; i < item_count(args); i += gridDim.x) {
        const Item item = item_at(args, i);
        place_voxels(args, item, voxels);
#pragma unroll
        for (int m = 0; m < kMTiles; ++m)
#pragma unroll
            for (int p = 0; p < kAccPhases; ++p)
#pragma unroll
                for (int j = 0; j < kN / 2; ++j) acc.sums[m][p][j] = 0.f;
        // Slices past the source hold nothing, but finish the outputs that lie beyond it.
#pragma unroll 1
        for (int slice = item.q_d + kDeltaMinD; slice < item.q_d_end; ++slice) {
            if (slice >= 0 && slice < args.depth) {
#pragma unroll 1
                for (int chunk = 0; chunk < kChunks; ++chunk, ++s) {
                    ptx::barrier_wait(kRoundInPlace ? pipe.rounded(s) : pipe.filled(s), Pipeline::parity(s));
                    const uint32_t plane = pipe.stage(s) + channel * kPlaneWords * 4;
                    multiply_step<0>(acc, a, voxels, plane, ptx::wgmma_descriptor(pipe.stage(s) + kSrcRoom, 128, 256, ptx::Swizzle::none));
                    ptx::wgmma_wait<0>();
                    ptx::barrier_arrive(pipe.freed(s));
                }
            }
            const int rotation = (slice + 64 * kRotations) % kRotations;
            finish_slice<0>(acc, args, item, voxels, slice, rotation);
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    stream_fwd(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ StreamArgs args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Pipeline pipe{ptx::shared_address(shared)};
    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; ++s) {
            ptx::barrier_init(pipe.filled(s), 1);
            ptx::barrier_init(pipe.rounded(s), 96);
            ptx::barrier_init(pipe.freed(s), kConsumers * 128);
        }
        ptx::fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers * 128) {
        const int thread = threadIdx.x - kConsumers * 128;
        ptx::give_registers<40>();
        if (thread == 0) produce(args, map, pipe);
        if (kRoundInPlace && thread >= 32) round_stages(args, pipe, thread - 32);
    } else {
        ptx::take_registers<kConsumerRegisters>();
        consume(args, pipe);
    }
}
