// fwd on Hopper, streamed along D (docs/design.md). A CTA owns a tile of kTileH × kTileW positions q of a plane and
// some output channels, and walks the source slices. Each slice multiplies, for every tap (h, w), the weights of all
// taps along D at once: the accumulators hold one slot per open output slice, a ring per D phase. When a slice is done,
// one slot per D phase is finished, gets the epilogue, is stored and cleared.
//
// The copy engine rounds to tf32 on the way: the tensor map's element type says so.
//
// Constants from the host (stream_source.cpp): kCi kCo kGroups kChannelStep kChunks kCoTile kN kRotations kMTiles kConsumers
// kConsumerRegisters kTileH kTileW kPlaneRows kPlanePitch kStages kOffsets kOffsetGroup kOffsetWords kRunBegin kRunUse
// kUses kHwPhases kAccPhase kAccPhases, kStride and kPadding and kDeltaMin of D, H, W, kDPhases kRingLength kRingStart
// kRingDelta; the function wgmma<Run>(); and what output.cuh asks for.
#include "output.cuh"

namespace {

constexpr int kThreads = (kConsumers + 1) * 128;
constexpr int kPlaneWords = kPlaneRows * kPlanePitch;
constexpr int kSrcBytes = kChannelStep * kPlaneWords * 4;
constexpr int kSrcRoom = (kSrcBytes + 127) / 128 * 128;
constexpr int kBlockBytes = kN * kChannelStep * 4;
constexpr int kWeightBytes = kUses * kBlockBytes;
constexpr int kStageBytes = kSrcRoom + (kWeightBytes + 127) / 128 * 128;
constexpr int kTileVoxels = kTileH * kTileW;
// Where outputs interleave along w, a warp turns its sums around in shared memory before it stores them: 8 channels of
// 16 voxels for each phase h, as [phase h][channel][voxel][phase w]. The channels lie apart in banks.
constexpr int kTurnChannel = 16 * kStrideW + (kStrideW == 2 ? 4 : 8);
constexpr int kTurnBytes = kStrideW == 1 ? 0 : kStrideH * 8 * kTurnChannel * 4;
constexpr int kPositions = (16 * kStrideW + 31) / 32; // of a lane, among a warp's outputs of one channel

struct StreamArgs {
    const float* weights; // packed
    int64_t dst_slice;    // elements of an output slice
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

/// Stages as both roles see them, in the same order.
struct Pipeline {
    uint32_t base;
    __device__ uint32_t stage(int s) const { return base + s % kStages * kStageBytes; }
    __device__ uint32_t filled(int s) const { return base + kStages * kStageBytes + s % kStages * 8; }
    __device__ uint32_t freed(int s) const { return filled(s) + kStages * 8; }
    __device__ uint32_t end() const { return base + kStages * kStageBytes + (kStages * 16 + 127) / 128 * 128; }
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
            const float* weights =
                args.weights + (group_tile * kRotations + slice % kRotations) * kChunks * (kWeightBytes / 4);
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

/// Where this lane reads and where it writes.
struct Lane {
    int words[kMTiles][2]; // of its two voxels of each m64 tile, in the plane
    // Of its outputs at phase h = 0, in a slice: its two voxels where stride w is 1, its positions otherwise.
    int outputs[kMTiles][kStrideW == 1 ? 2 : kPositions];
    uint32_t stored[kMTiles][kStrideW == 1 ? 2 : kPositions]; // a bit for each phase h whose output exists
};

struct Accumulators {
    float sums[kMTiles][kAccPhases * kN / 2];
};

/// The wgmmas of the runs from Run to End; Run belongs to Offset, or to one after it. Fragment 0 is offset First's.
template <int Offset, int Run, int End, int First>
__device__ __forceinline__ void multiply_runs(float (&sums)[kAccPhases * kN / 2],
                                              const uint32_t (&fragments)[kOffsetGroup][4], uint64_t weights) {
    if constexpr (Run < End) {
        if constexpr (Run < kRunBegin[Offset + 1]) {
            wgmma<Run>(sums, fragments[Offset - First], weights + (kRunUse[Run] * kBlockBytes >> 4));
            multiply_runs<Offset, Run + 1, End, First>(sums, fragments, weights);
        } else {
            multiply_runs<Offset + 1, Run, End, First>(sums, fragments, weights);
        }
    }
}

/// Multiplies kOffsetGroup offsets of an m64 tile, then the next tile's, then the next offsets. The fragments of one
/// group are loaded while the wgmmas of the group before run.
template <int Step>
__device__ __forceinline__ void multiply_step(Accumulators& acc, uint32_t (&a)[2][kOffsetGroup][4], const Lane& lane,
                                              uint32_t plane, uint64_t weights) {
    constexpr int m = Step % kMTiles, first = Step / kMTiles * kOffsetGroup;
    if constexpr (first < kOffsets) {
        constexpr int count = kOffsets - first < kOffsetGroup ? kOffsets - first : kOffsetGroup;
        uint32_t (&fragments)[kOffsetGroup][4] = a[Step % 2];
        const uint32_t upper = plane + lane.words[m][0] * 4, lower = plane + lane.words[m][1] * 4;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            fragments[i][0] = ptx::load_shared(upper + kOffsetWords[first + i] * 4);
            fragments[i][1] = ptx::load_shared(lower + kOffsetWords[first + i] * 4);
            fragments[i][2] = ptx::load_shared(upper + (kOffsetWords[first + i] + 4 * kPlaneWords) * 4);
            fragments[i][3] = ptx::load_shared(lower + (kOffsetWords[first + i] + 4 * kPlaneWords) * 4);
        }
        ptx::wgmma_fence();
        multiply_runs<first, kRunBegin[first], kRunBegin[first + count], first>(acc.sums[m], fragments, weights);
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        multiply_step<Step + 1>(acc, a, lane, plane, weights);
    }
}

/// The sum at a place that is a constant once the loops are unrolled, which is cleared; 0 where there are no taps.
template <int Slot>
__device__ __forceinline__ float take_sum(Accumulators& acc, int m, int phase, int index) {
    float value = 0.f;
    if constexpr (Slot >= 0) {
        if (kAccPhase[phase] >= 0) {
            float& sum =
                acc.sums[m][(kAccPhase[phase] < 0 ? 0 : kAccPhase[phase]) * (kN / 2) + Slot * kCoTile / 2 + index];
            value = sum;
            sum = 0.f;
        }
    }
    return value;
}

/// Where the 8 channels of a block go: the first one's index in dst and the distance to the next.
struct BlockPlace {
    int64_t first;
    int64_t channel_stride;
    int channel; // of the bias
    int count;   // channels that exist; 0 when nothing is kept
};

__device__ __forceinline__ float block_bias(const Output& output, const BlockPlace& place, int c) {
    return c < place.count ? load_bias(output, place.channel + c) : 0.f;
}

/// Stores a block where outputs are contiguous along w: the eight lanes that share a channel write neighbours.
template <int Slot>
__device__ __forceinline__ void store_rows(Accumulators& acc, const StreamArgs& args, const Output& output,
                                           const BlockPlace& place, const Lane& lane, int j) {
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
        const int c = 2 * (threadIdx.x % 4) + pair;
        const float bias = block_bias(output, place, c);
#pragma unroll
        for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const uint32_t stored = c < place.count ? lane.stored[m][row] : 0;
                const int64_t index = place.first + c * place.channel_stride + lane.outputs[m][row];
#pragma unroll
                for (int h = 0; h < kStrideH; ++h) {
                    const float sum = take_sum<Slot>(acc, m, h, j * 4 + row * 2 + pair);
                    if (stored >> h & 1) store_output(output, sum, bias, place.channel + c, index + h * args.dst_w);
                }
            }
        }
    }
}

/// Puts a warp's sums of one m64 tile into its buffer.
template <int Slot>
__device__ __forceinline__ void turn_sums(Accumulators& acc, uint32_t buffer, int j, int m) {
    const uint32_t lane = buffer + (2 * (threadIdx.x % 4) * kTurnChannel + threadIdx.x % 32 / 4 * kStrideW) * 4;
#pragma unroll
    for (int index = 0; index < 4; ++index) {
        const int row = index / 2, pair = index % 2;
#pragma unroll
        for (int phase = 0; phase < kHwPhases; ++phase) {
            const int word = (phase / kStrideW * 8 + pair) * kTurnChannel + row * 8 * kStrideW + phase % kStrideW;
            ptx::store_shared(lane + word * 4, take_sum<Slot>(acc, m, phase, j * 4 + index));
        }
    }
}

/// Stores a block where the outputs of several phases interleave along w: lanes write neighbours.
template <int Slot>
__device__ __forceinline__ void store_turned(Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const BlockPlace& place, const Lane& lane, uint32_t buffer, int j) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
        if constexpr (Slot >= 0) {
            turn_sums<Slot>(acc, buffer, j, m);
            __syncwarp();
        }
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const float bias = block_bias(output, place, c);
#pragma unroll
            for (int p = 0; p < kPositions; ++p) {
                const uint32_t stored = c < place.count ? lane.stored[m][p] : 0;
                const int64_t index = place.first + c * place.channel_stride + lane.outputs[m][p];
#pragma unroll
                for (int h = 0; h < kStrideH; ++h) {
                    const int word = (h * 8 + c) * kTurnChannel + p * 32 + threadIdx.x % 32;
                    const float sum = Slot < 0 ? 0.f : __uint_as_float(ptx::load_shared(buffer + word * 4));
                    if (stored >> h & 1) store_output(output, sum, bias, place.channel + c, index + h * args.dst_w);
                }
            }
        }
        if constexpr (Slot >= 0) __syncwarp();
    }
}

/// Stores one D phase's finished output slice and clears its slot. Slot -1: a phase without taps, all zero.
template <int Slot>
__device__ __forceinline__ void store_slice(Accumulators& acc, const StreamArgs& args, const Output& output,
                                            const Item& item, const Lane& lane, uint32_t buffer, int d, bool keep) {
    BlockPlace place;
    place.channel_stride = args.dst_d * args.dst_slice;
    place.channel = item.group * kCo + item.co_first;
    place.first =
        (static_cast<int64_t>(item.n) * kGroups * kCo + place.channel) * place.channel_stride + d * args.dst_slice;
#pragma unroll
    for (int j = 0; j < kCoTile / 8; ++j) {
        place.count = keep ? kCo - item.co_first - j * 8 : 0;
        if constexpr (kStrideW == 1) {
            store_rows<Slot>(acc, args, output, place, lane, j);
        } else {
            store_turned<Slot>(acc, args, output, place, lane, buffer, j);
        }
        place.channel += 8;
        place.first += 8 * place.channel_stride;
    }
}

/// After slice `slice` (= Rotation mod kRotations) D phase r has finished q = slice - kRingDelta[r].
template <int Rotation, int R>
__device__ __forceinline__ void finish_phases(Accumulators& acc, const StreamArgs& args, const Output& output,
                                              const Item& item, const Lane& lane, uint32_t buffer, int slice) {
    if constexpr (R < kDPhases) {
        const int q = slice - kRingDelta[R];
        const int d = kStrideD * q + R - kPaddingD;
        const bool keep = q >= item.q_d && q < item.q_d_end && d >= 0 && d < args.dst_d;
        if constexpr (kRingLength[R] == 0) {
            store_slice<-1>(acc, args, output, item, lane, buffer, d, keep);
        } else {
            constexpr int slot = (Rotation - kRingDelta[R] + 64 * kRingLength[R]) % kRingLength[R];
            store_slice<kRingStart[R] + slot>(acc, args, output, item, lane, buffer, d, keep);
        }
        finish_phases<Rotation, R + 1>(acc, args, output, item, lane, buffer, slice);
    }
}

template <int Rotation>
__device__ __forceinline__ void finish_slice(Accumulators& acc, const StreamArgs& args, const Output& output,
                                             const Item& item, const Lane& lane, uint32_t buffer, int slice,
                                             int rotation) {
    if constexpr (Rotation < kRotations) {
        if (rotation == Rotation) {
            finish_phases<Rotation, 0>(acc, args, output, item, lane, buffer, slice);
        } else {
            finish_slice<Rotation + 1>(acc, args, output, item, lane, buffer, slice, rotation);
        }
    }
}

/// The first voxel of a warp in its m64 tile: tiles follow one another through the warpgroups.
__device__ __forceinline__ int warp_voxel(int m) {
    return (threadIdx.x / 128 * kMTiles + m) * 64 + threadIdx.x / 32 % 4 * 16;
}

/// The voxels that a lane multiplies: any row of a fragment may be any voxel of the tile.
__device__ __forceinline__ void place_reads(const Item& item, Lane& lane) {
    const int shift = item.q_w + kDeltaMinW - box_column(item);
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int voxel = min(warp_voxel(m) + threadIdx.x % 32 / 4 + row * 8, kTileVoxels - 1);
            lane.words[m][row] = voxel / kTileW * kPlanePitch + voxel % kTileW + shift;
        }
    }
}

/// The outputs of a voxel that a lane writes.
__device__ __forceinline__ void place_write(const StreamArgs& args, const Item& item, int voxel, int phase_w,
                                            int& output, uint32_t& stored) {
    const int q_h = item.q_h + voxel / kTileW, q_w = item.q_w + voxel % kTileW;
    const int h = kStrideH * q_h - kPaddingH, w = kStrideW * q_w + phase_w - kPaddingW;
    const bool exists = voxel < kTileVoxels && q_h < args.q_end_h && q_w < args.q_end_w && w >= 0 && w < args.dst_w;
    output = h * args.dst_w + w;
    stored = 0;
#pragma unroll
    for (int phase = 0; phase < kStrideH; ++phase) {
        if (exists && h + phase >= 0 && h + phase < args.dst_h) stored |= 1u << phase;
    }
}

__device__ __forceinline__ void place_writes(const StreamArgs& args, const Item& item, Lane& lane) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
        if constexpr (kStrideW == 1) {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const int voxel = warp_voxel(m) + threadIdx.x % 32 / 4 + row * 8;
                place_write(args, item, voxel, 0, lane.outputs[m][row], lane.stored[m][row]);
            }
        } else {
#pragma unroll
            for (int p = 0; p < kPositions; ++p) {
                const int position = p * 32 + threadIdx.x % 32;
                const int voxel = position < 16 * kStrideW ? warp_voxel(m) + position / kStrideW : kTileVoxels;
                place_write(args, item, voxel, position % kStrideW, lane.outputs[m][p], lane.stored[m][p]);
            }
        }
    }
}

__device__ __forceinline__ void consume(const StreamArgs& args, const Output& output, Pipeline pipe) {
    Accumulators acc;
    uint32_t a[2][kOffsetGroup][4];
    Lane lane;
    int s = 0;
    const uint32_t channel = threadIdx.x % 4;
    const uint32_t buffer = pipe.end() + threadIdx.x / 32 * kTurnBytes;
    for (int i = blockIdx.x; i < item_count(args); i += gridDim.x) {
        const Item item = item_at(args, i);
        place_reads(item, lane);
        place_writes(args, item, lane);
#pragma unroll
        for (int m = 0; m < kMTiles; ++m)
#pragma unroll
            for (int j = 0; j < kAccPhases * kN / 2; ++j) acc.sums[m][j] = 0.f;
        // Slices past the source hold nothing, but finish the outputs that lie beyond it.
#pragma unroll 1
        for (int slice = item.q_d + kDeltaMinD; slice < item.q_d_end; ++slice) {
            if (slice >= 0 && slice < args.depth) {
#pragma unroll 1
                for (int chunk = 0; chunk < kChunks; ++chunk, ++s) {
                    ptx::barrier_wait(pipe.filled(s), Pipeline::parity(s));
                    const uint32_t plane = pipe.stage(s) + channel * kPlaneWords * 4;
                    multiply_step<0>(acc, a, lane, plane,
                                     ptx::wgmma_descriptor(pipe.stage(s) + kSrcRoom, 128, 256, ptx::Swizzle::none));
                    ptx::wgmma_wait<0>();
                    ptx::barrier_arrive(pipe.freed(s));
                }
            }
            const int rotation = (slice + 64 * kRotations) % kRotations;
            finish_slice<0>(acc, args, output, item, lane, buffer, slice, rotation);
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    stream_fwd(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ StreamArgs args,
               const __grid_constant__ Output output) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Pipeline pipe{ptx::shared_address(shared)};
    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; ++s) {
            ptx::barrier_init(pipe.filled(s), 1);
            ptx::barrier_init(pipe.freed(s), kConsumers * 128);
        }
        ptx::fence_barrier_init();
    }
    __syncthreads();
    // The producers are one thread of a warpgroup, because registers change hands by warpgroups.
    if (threadIdx.x >= kConsumers * 128) {
        ptx::give_registers<40>();
        if (threadIdx.x == kConsumers * 128) produce(args, map, pipe);
    } else {
        ptx::take_registers<kConsumerRegisters>();
        consume(args, output, pipe);
    }
}
