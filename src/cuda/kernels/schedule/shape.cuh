#pragma once

// What the roles of the streamed kernel agree on: its arguments, its work items, its stages, its positions.
//
// A staged plane is a row of positions, one for each voxel of the tile and its halo, image after image, row after row.
// A position holds 16 bytes of channels; the planes of the channels that follow lie behind it. So 8 neighbouring
// positions are one core of a K-major operand, and a tap is a constant distance between positions. Where the copy
// engine writes the stages, a position holds all channels of a stage, and there is one plane: a swizzled K-major
// operand.
//
// Constants from the host (stream_source.cpp):
//   kCi kCo kGroups kChannelStep kSteps             channels of a group, of one k step; k steps of a stage
//   kSummedSteps                                    k steps that are summed up before they are rounded, see
//                                                   stream_multiply.cuh; all of a stage where fp32 is not split
//   kCoTile kWeightRows                             output channels of a work item; rows of its weights for a tap
//   kN kMTiles kConsumers                           columns of a product; products of a warpgroup; warpgroups
//   kBusyConsumers                                  those that have positions
//   kGathered                                       which of the two forms: see stream.cuh and gather.cuh
//   kKeeps                                          gathered: a slice of src stays for all steps that read it
//   kImages kTileH kTileW                           positions q of a work item
//   kSlices                                         1, or kImages where these are slices of one image, which have
//                                                   nothing to do with one another: all others count such groups then
//   kPlaneRows kPitch kPositions                    the staged plane
//   kRowPitch kImagePitch                           positions from a row, and an image, to the next
//   kTail                                           positions behind all rows that are read as the halo of a next one
//   kCoreStride                                     positions between the cores of a product
//   kBlocksH kBlocksW                               m64 tiles of an image where cores follow its rows, else 0
//   kStages kWeightStages kRawStages kRaw…          of src, of weights, of src before warps arrange it
//   kOverread                                       bytes behind these that the last load of one may touch
//   kParts kSource                                  2 parts where fp32 is split; where src comes from
//   kWholeH kWholeW                                 extents of the planes that come whole, or in runs of whole rows
//   kRunRows kRunBoxes                              rows of such a run, and runs of a staged plane
//   kStore kLaneChannels kAligned                   how dst is stored: see stream_store.cuh
//   kStagedBytes kStagedColumns kStagedBuffers      of a channel's outputs in shared memory; see stream_staged.cuh and
//                                                   gather_rows.cuh
//   kSeams                                          sectors in which rows of dst meet are cleared: see gather_rows.cuh
//   kPieces                                         rows of dst are sent together, by a warpgroup of its own: see
//                                                   gather_pieces.cuh
//   kSmallDst                                       dst has fewer than 2^31 elements
//   kLastRows kLastColumns                          phases of the last q along H and W that exist
//   kStride kPadding kDilation kKernel kDeltaMin kDeltaMax   of D, H, W
//   kPhaseTapD kTapD kTapDelta                      taps along D by phase, and the slices they read, relative to q
//   kDPhases kRingLength kRingStart kRingDelta kRotations   accumulator slots along D
//   kTurned                                         the weights hold one rotation, which copies turn, not each
//   kOwnWeights                                     a CTA packs its weights for itself: see stream_own.cuh
//   kRuns kRunOffset kRunUse kUses kTapGroups kGroupRun kGroupUse      taps of a pass, in groups that share a stage
//   kGroupAdds                                      whether a group adds to the sums of a phase (h, w)
//   kPasses kPassOffset                             passes over these taps, each moved along H
//   kRowSets kSetPhase kSetPass kRowPhases          work items have all phases along H, or each set of them has one
//   kAccPhase kAccPhases                            sums of a phase (h, w) of a work item
#include "base/ptx.cuh"
#include "base/storage.cuh"

namespace {

// The values of kSource and kStore.
constexpr int kSourceChannels = 0, kSourcePlanes = 1, kSourceRawCores = 2, kSourceGlobal = 3, kSourceWhole = 4,
              kSourceRuns = 5;
constexpr int kStoreVoxel = 0, kStorePairs = 1, kStoreQuads = 2, kStoreStaged = 3, kStoreChannels = 4;

constexpr int kWordChannels = kChannelStep / 8; // channels in 32 bits
// Beside consumers, a warpgroup that fills the stages, and one that sends pieces.
constexpr int kThreads = (kConsumers + (kPieces ? 2 : 1)) * 128;
constexpr int kPlaneBytes = kPositions * 16;
constexpr int kPartBytes = 2 * kSteps * kPlaneBytes;
constexpr int kStageBytes = kParts * kPartBytes;
constexpr int kBlockBytes = kWeightRows * 32; // the weights of one tap of the plane and one k step
constexpr int kAllTaps = kKernelD * kKernelH * kKernelW;
constexpr int kChunks = (kCi + kSteps * kChannelStep - 1) / (kSteps * kChannelStep); // stages of a slice
constexpr bool kArranged = kSource != kSourceChannels; // warps write the cores, instead of the copy engine
constexpr bool kSwizzled = !kArranged;
constexpr int kPositionBytes = kSwizzled ? kSteps * 32 : 16; // from a position to the next
constexpr int kStepBytes = kSwizzled ? 32 : 2 * kPlaneBytes; // from a k step to the next
constexpr bool kHasPlanes = kSource == kSourcePlanes || kSource == kSourceWhole || kSource == kSourceRuns;
constexpr bool kHasRaw = kHasPlanes || kSource == kSourceRawCores;
constexpr int kArrangingWarps = 2;
constexpr bool kInterleaved = kImagePitch < kRowPitch; // a row of each image in turn
constexpr int kBatchImages = kImages / kSlices;        // of the batch in a work item
// Lanes of a warp that arrive at a barrier. One speaks for all where the copy engine or wgmma is on the other side.
constexpr int kArrivals = kWgmma ? 1 : 32;

/// A row of a core: the 16 bytes of a position, or of a row of weights.
struct alignas(16) Core {
    uint32_t words[4];
};

/// Stores the parts of a row of fp32.
__device__ __forceinline__ void put_parts(uint32_t to, int part_bytes, const Core& core) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
        Core values;
#pragma unroll
        for (int i = 0; i < 4; ++i) values.words[i] = tf32_part(__uint_as_float(core.words[i]), part);
        ptx::store_shared(to + part * part_bytes, values.words);
    }
}

/// Uses and bytes of a group of taps.
__host__ __device__ constexpr int group_uses(int group) {
    return kGroupUse[group + 1] - kGroupUse[group];
}
__host__ __device__ constexpr int group_bytes(int group) {
    return kSteps * kParts * group_uses(group) * kBlockBytes;
}

// In a group of taps the weights lie by k step, part and use, and those of one use by rows; or, where copies turn them,
// by rows first, so that slots are contiguous: eight rows, two cores, of each use, part and k step, and so on.
constexpr int kEightRowsBytes = 256;
constexpr int kUseBytes = kTurned ? kEightRowsBytes : kBlockBytes; // from a use to the next

/// Bytes from the weights of a k step of a group to the next.
__host__ __device__ constexpr int weight_step_bytes(int group) {
    return kParts * group_uses(group) * kUseBytes;
}

/// Bytes from eight rows of a use to the next eight.
__host__ __device__ constexpr int eight_rows_stride(int group) {
    return kTurned ? kSteps * kParts * group_uses(group) * kEightRowsBytes : kEightRowsBytes;
}

struct StreamArgs {
    const unsigned char* weights; // packed, or as they are where a CTA packs them
    const unsigned char* src;
    int64_t dst_slice; // voxels of an output slice
    int batch, depth, src_h, src_w;
    int dst_d, dst_h, dst_w;
    int q_end_d;
    int tiles_h, tiles_w, co_tiles;
    int whole_items, rest, share; // slices q of the items that are not whole, and those of them that a CTA takes
    int weight_channels_last;     // where a CTA packs them
};

/// An entry of a table, in instructions: tables are short, and a load would be waited for.
template <int Count>
__device__ __forceinline__ int entry(const int (&table)[Count], int index) {
    int found = table[0];
#pragma unroll
    for (int i = 1; i < Count; ++i) found = index == i ? table[i] : found;
    return found;
}

/// One work item: a tile of the plane, some output channels of a group, some images, all phases along H or one; and q
/// along D, all or a range.
struct Item {
    int co_tile, group, q_w, q_h, q_d, q_d_end, n, row_set;
    __device__ __forceinline__ int first_row() const { return kRowSets == 1 ? 0 : entry(kSetPhase, row_set); }
    __device__ __forceinline__ int first_pass() const { return kRowSets == 1 ? 0 : entry(kSetPass, row_set); }
    __device__ __forceinline__ int passes() const {
        return kRowSets == 1 ? kPasses : entry(kSetPass, row_set + 1) - entry(kSetPass, row_set);
    }
};

/// The remainder; what is divided becomes the quotient.
__device__ __forceinline__ int take(int& index, int divisor) {
    const int quotient = index / divisor, remainder = index - quotient * divisor;
    index = quotient;
    return remainder;
}

__device__ __forceinline__ void take_channels(Item& item, const StreamArgs& args, int& index) {
    item.co_tile = take(index, args.co_tiles);
    item.group = index % kGroups;
    index /= kGroups;
}

/// Items that follow one another share what they read: src, or the weights where a CTA packs them.
__device__ __forceinline__ Item item_at(const StreamArgs& args, int index) {
    Item item;
    if constexpr (!kOwnWeights) take_channels(item, args, index);
    item.q_w = take(index, args.tiles_w) * kTileW;
    item.q_h = take(index, args.tiles_h) * kTileH;
    if constexpr ((kRowSets > 1 && !kGathered) || kOwnWeights) {
        item.n = take(index, (args.batch + kBatchImages - 1) / kBatchImages) * kBatchImages;
        if constexpr (kOwnWeights) take_channels(item, args, index);
        item.row_set = index; // those with the most passes first
    } else {
        item.n = index * kBatchImages;
        item.row_set = 0;
    }
    return item;
}

/// The work items of a CTA: every n-th one, as long as all CTAs get one, and then a share of the others' slices.
struct Items {
    const StreamArgs& args;
    int at; // the next whole item; behind them all, the next slice of the others
    Item item{};

    __device__ __forceinline__ explicit Items(const StreamArgs& of)
        : args(of), at(of.whole_items > 0 ? static_cast<int>(blockIdx.x) : first_slice()) {}
    __device__ __forceinline__ int first_slice() const { return args.whole_items + blockIdx.x * args.share; }
    __device__ __forceinline__ int end() const { return min(first_slice() + args.share, args.whole_items + args.rest); }

    /// Goes to the next one, at first to the first; false when there is none. All of it is here, and each role calls it
    /// once: what is compiled twice takes twice the time.
    __device__ __forceinline__ bool next() {
        int index = at, first = 0, count = args.q_end_d;
        if (at < args.whole_items) {
            at += gridDim.x;
            if (at >= args.whole_items) at = first_slice();
        } else {
            if (at >= end()) return false;
            index = at - args.whole_items;
            first = take(index, args.q_end_d);
            index += args.whole_items;
            count = min(args.q_end_d - first, end() - at);
            at += count;
        }
        item = item_at(args, index);
        item.q_d = first;
        item.q_d_end = first + count;
        return true;
    }
};

/// Where sums are gathered, what q along D counts is a step: for each q, the phases along D, and for each of them those
/// along H, whose rows share sectors. A step makes one slice of dst, of some rows. Of two phases along H the first has
/// more taps: the next two steps have them in the other order, so that no warpgroup always has the longer ones.
struct Step {
    int q, row_set, phase;
    __device__ __forceinline__ explicit Step(int index) {
        row_set = take(index, kRowSets);
        if constexpr (kRowSets == 2) row_set ^= index & 1;
        phase = take(index, kStrideD);
        q = index;
    }
    __device__ __forceinline__ int d() const { return q * kStrideD + phase; }
    __device__ __forceinline__ int first_tap() const { return entry(kPhaseTapD, phase); }
    __device__ __forceinline__ int end_tap() const { return entry(kPhaseTapD, phase + 1); }
    __device__ __forceinline__ int slice(int tap) const { return q + entry(kTapDelta, tap); }
    __device__ __forceinline__ bool has(const StreamArgs& args, int tap) const {
        return tap < end_tap() && slice(tap) >= 0 && slice(tap) < args.depth && d() < args.dst_d;
    }
};

/// The slices of src that an item reads: the first one, and that behind the last.
__device__ __forceinline__ int source_begin(const Item& item) {
    return max((kGathered ? Step(item.q_d).q : item.q_d) + kDeltaMinD, 0);
}
__device__ __forceinline__ int source_end(const StreamArgs& args, const Item& item) {
    return min((kGathered ? Step(item.q_d_end - 1).q + 1 : item.q_d_end) + kDeltaMaxD, args.depth);
}

/// The stages of a CTA in the order in which every role passes them: items, their slices, their blocks of channels.
struct SliceWalk {
    const StreamArgs& args;
    Items items;
    int end = 0, left = 0; // slice of src behind the item's last one; stages of the item from here on

    __device__ __forceinline__ explicit SliceWalk(const StreamArgs& of) : args(of), items(of) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ int slice() const { return end - (left + kChunks - 1) / kChunks; }
    __device__ __forceinline__ int chunk() const { return (kChunks - left % kChunks) % kChunks; }
    __device__ __forceinline__ int turn() const { return slice() % kRotations; }
    /// Goes to the next stage, as Items does; passes items that meet no slice of src.
    __device__ __forceinline__ bool next() {
        for (--left; left <= 0; left = (end - source_begin(item())) * kChunks) {
            if (!items.next()) return false;
            end = source_end(args, item());
        }
        return true;
    }
};

/// The same where sums are gathered: items, their steps, the source slices of each, blocks of channels.
struct StepWalk {
    const StreamArgs& args;
    Items items;
    Step step;
    int index = 0, tap, chunk_at = kChunks - 1; // of the step, along D, of channels

    __device__ __forceinline__ explicit StepWalk(const StreamArgs& of)
        : args(of), items(of), step(0), tap(step.end_tap()) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ int slice() const { return step.slice(tap); }
    __device__ __forceinline__ int chunk() const { return chunk_at; }
    __device__ __forceinline__ int turn() const { return entry(kTapD, tap); }
    /// Goes to the next stage, as Items does; passes slices outside src.
    __device__ __forceinline__ bool next() {
        if (++chunk_at < kChunks) return true;
        chunk_at = 0;
        do {
            if (++tap < step.end_tap()) continue;
            if (++index >= item().q_d_end) {
                if (!items.next()) return false;
                index = item().q_d;
            }
            step = Step(index);
            items.item.row_set = step.row_set;
            tap = step.first_tap();
        } while (!step.has(args, tap));
        return true;
    }
};

template <bool Steps>
struct WalkOf {
    using Type = SliceWalk;
};
template <>
struct WalkOf<true> {
    using Type = StepWalk;
};
using SourceWalk = typename WalkOf<kGathered && !kKeeps>::Type;
using WeightWalk = typename WalkOf<kGathered>::Type;

/// One of a ring of buffers, and how often all were passed before. Counted on from one to the next: to divide takes
/// long where it is waited for.
struct RingPlace {
    int index = 0, round = 0;
};

/// A ring of buffers in shared memory, each with a barrier that says it is filled and one that says it is free again.
/// They are named by their place, or counted through all rounds.
struct Buffers {
    uint32_t data, barriers;
    int bytes, count;

    __device__ RingPlace place(int s) const { return {s % count, s / count}; }
    __device__ RingPlace place(RingPlace p) const { return p; }
    __device__ RingPlace before(RingPlace p) const {
        return p.index > 0 ? RingPlace{p.index - 1, p.round} : RingPlace{count - 1, p.round - 1};
    }
    __device__ void next(RingPlace& p) const {
        if (++p.index < count) return;
        p.index = 0;
        ++p.round;
    }
    __device__ void skip(RingPlace& p, int buffers) const {
        const int index = p.index + buffers;
        p = {index % count, p.round + index / count};
    }

    template <typename Place>
    __device__ uint32_t at(Place p) const {
        return data + place(p).index * bytes;
    }
    template <typename Place>
    __device__ uint32_t filled(Place p) const {
        return barriers + place(p).index * 16;
    }
    template <typename Place>
    __device__ uint32_t freed(Place p) const {
        return filled(p) + 8;
    }
    template <typename Place>
    __device__ void wait_filled(Place p) const {
        ptx::barrier_wait(filled(p), place(p).round & 1);
    }
    template <typename Place>
    __device__ void wait_freed(Place p) const {
        const int round = place(p).round;
        if (round > 0) ptx::barrier_wait(freed(p), (round - 1) & 1);
    }
};

/// Where sums are gathered the warpgroups that multiply take turns, step after step. Each waits for stages only when
/// the other one has come past its own: a barrier can be waited for when it is one phase ahead, but not when it is two.
struct Turns {
    uint32_t barriers; // one for each warpgroup
    __device__ uint32_t given(int step) const { return barriers + step % kConsumers * 8; }
    __device__ void wait(int step) const {
        if (step > 0) ptx::barrier_wait(given(step - 1), (step - 1) / kConsumers & 1);
    }
    /// Each warp for itself.
    __device__ void give(int step) const {
        if (threadIdx.x % 32 == 0) ptx::barrier_arrive(given(step));
    }
};

/// What the roles hand to one another.
struct Pipeline {
    Buffers src, weights, raw;
    Turns turns;
    uint32_t end; // of them all
    __device__ __forceinline__ explicit Pipeline(uint32_t shared) {
        const uint32_t barriers = shared, data = shared + 1024;
        src = {data, barriers, kStageBytes, kStages};
        weights = {src.data + kStages * kStageBytes, barriers + 256, kWeightStageBytes, kWeightStages};
        raw = {weights.data + kWeightStages * kWeightStageBytes, barriers + 512, kRawBytes, kRawStages};
        turns = {barriers + 768};
        end = raw.data + kRawStages * kRawBytes;
    }
    /// Where the channels of a warp are staged, 8 in each buffer: see gather_pieces.cuh.
    __device__ __forceinline__ Buffers pieces_of(int warp) const {
        constexpr int kBytes = 8 * kStagedBytes, kCount = 2;
        return {end + kOverread + warp * (kCount * kBytes), src.barriers + 896 + warp * (kCount * 16), kBytes, kCount};
    }
};

/// The same in all lanes, and the assembler knows: it would serialise products in a branch that lanes may leave.
__device__ __forceinline__ int warpgroup_of_thread() {
    return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
}

/// The first position of the product m of a thread's warpgroup. Those of 64 rows follow one another through the
/// warpgroups.
__device__ __forceinline__ int tile_position(int thread, int m) {
    if constexpr (kGathered) return m * (kN / 8) * kCoreStride;
    const int tile = thread / 128 * kMTiles + m;
    if constexpr (kBlocksW == 0) return tile * 64;
    constexpr int kWidth = kBlocksW == 0 ? 1 : kBlocksW, kBlocks = kBlocksH == 0 ? 1 : kBlocksH * kWidth;
    const int image = tile / kBlocks, block = tile % kBlocks;
    return (image * kPlaneRows + block / kWidth * 8) * kPitch + block % kWidth * 8;
}

/// The position of one of the rows, or columns, of the product m of a thread's warpgroup.
__device__ __forceinline__ int row_position(int thread, int m, int row) {
    return tile_position(thread, m) + row / 8 * kCoreStride + row % 8;
}

/// Where a position lies in the tile.
struct Voxel {
    int image, row, column;
};

__device__ __forceinline__ Voxel voxel_at(int position) {
    Voxel voxel;
    if constexpr (kInterleaved) {
        voxel.row = position / kRowPitch;
        voxel.image = position % kRowPitch / kPitch;
    } else {
        voxel.image = kImages == 1 ? 0 : position / kImagePitch;
        voxel.row = (position - voxel.image * kImagePitch) / kPitch;
    }
    voxel.column = position % kPitch;
    return voxel;
}

} // namespace
