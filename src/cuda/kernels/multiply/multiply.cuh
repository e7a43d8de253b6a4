#pragma once

// The products of one stage. Both engines keep sums in the same registers: a warp of a warpgroup has 16 rows of each
// m64 tile, and a lane of it rows g and g + 8, columns 2t and 2t + 1 of every 8, with g = lane / 4 and t = lane % 4.
#include "schedule/shape.cuh"

namespace {

struct Accumulators {
    float sums[kMTiles][kAccPhases * kN / 2];
};

__device__ __forceinline__ void clear(Accumulators& acc) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int j = 0; j < kAccPhases * kN / 2; ++j) ptx::clear(acc.sums[m][j]);
}

/// The sums that a group of taps adds to.
template <int Group>
__device__ __forceinline__ void add(Accumulators& acc, const Accumulators& more) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
        for (int j = 0; j < kAccPhases * kN / 2; ++j)
            if (kGroupAdds[Group * kAccPhases + j / (kN / 2)]) acc.sums[m][j] += more.sums[m][j];
}

// ---- wgmma (sm_90a) ----
//
// Where sums are gathered, its products add to registers that only the assembler knows (stream_wgmma.cpp): they are
// cleared by clear_sums() before the first one, and read by read_sums() when all are done.

constexpr ptx::Swizzle kSwizzle = !kSwizzled    ? ptx::Swizzle::none
                                  : kSteps == 4 ? ptx::Swizzle::bytes128
                                  : kSteps == 2 ? ptx::Swizzle::bytes64
                                                : ptx::Swizzle::bytes32;

/// `cores` and `weights` are descriptors, whose unit is 16 bytes. Where fp32 is split, `adds` says whether the first
/// product of sums adds to them or replaces them.
template <int Group, int M>
__device__ __forceinline__ void multiply_tiles(Accumulators& acc, uint64_t cores, uint64_t weights, int adds) {
    if constexpr (M < kMTiles) {
        wgmmas<Group>(acc.sums[M], cores + tile_position(threadIdx.x, M) * (kPositionBytes / 16), weights, adds);
        multiply_tiles<Group, M + 1>(acc, cores, weights, adds);
    }
}

template <int Group>
__device__ __forceinline__ void multiply_by_wgmma(Accumulators& acc, uint32_t cores, uint32_t weights) {
    const uint64_t a = ptx::wgmma_descriptor(cores, kPlaneBytes, kCoreStride * kPositionBytes, kSwizzle);
    const uint64_t b = ptx::wgmma_descriptor(weights, 128, eight_rows_stride(Group), ptx::Swizzle::none);
#pragma unroll 1
    for (int step = 0; step < kSummedSteps; ++step) {
        ptx::wgmma_fence();
        const uint64_t cores_of = a + step * (kStepBytes / 16), weights_of = b + step * (weight_step_bytes(Group) / 16);
        if constexpr (kGathered) {
            wgmmas<Group>(acc, cores_of, weights_of);
            ptx::wgmma_commit();
        } else {
            multiply_tiles<Group, 0>(acc, cores_of, weights_of, step);
        }
    }
    if constexpr (!kGathered) ptx::wgmma_commit();
}

// ---- mma.sync ----

/// The fragments of a warp's 16 rows of each m64 tile at one offset: cores as they lie.
__device__ __forceinline__ void load_rows(uint32_t (&a)[kMTiles][4], uint32_t cores, int offset) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
        ptx::load_matrices(a[m], cores + (row_position(threadIdx.x, m, row) + offset) * 16 + lane / 16 * kPlaneBytes);
}

/// 8 columns of all m64 tiles; `first` is the first of their sums.
__device__ __forceinline__ void multiply_block(Accumulators& acc, int first, const uint32_t (&a)[kMTiles][4],
                                               const uint32_t (&b)[2]) {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
        float c[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] = acc.sums[m][first + i];
        multiply_fragments(c, a[m], b);
#pragma unroll
        for (int i = 0; i < 4; ++i) acc.sums[m][first + i] = c[i];
    }
}

/// Bytes to one of the blocks of 8 columns of a run's weights.
template <int Group>
__device__ __forceinline__ int block_bytes(int block) {
    if constexpr (!kTurned) return block * kEightRowsBytes;
    return block / (kN / 8) * kUseBytes + block % (kN / 8) * eight_rows_stride(Group);
}

/// A run. Two blocks of 8 columns at a time: their four cores are one load.
template <int Group, int Run>
__device__ __forceinline__ void multiply_run(Accumulators& acc, uint32_t cores, uint32_t weights) {
    constexpr int kBlocks = kRunCount[Run] * (kN / 8), kFirst = kRunFirst[Run] * (kN / 2);
    uint32_t a[kParts][kMTiles][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part) load_rows(a[part], cores + part * kPartBytes, kRunOffset[Run]);
#pragma unroll
    for (int block = 0; block < kBlocks; block += 2) {
        // The last block may have no neighbour, and is loaded twice.
        const int lane = threadIdx.x % (block + 1 < kBlocks ? 32 : 16);
        uint32_t b[kParts][4];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
            ptx::load_matrices(b[part], weights + part * (group_uses(Group) * kUseBytes) +
                                            block_bytes<Group>(block + lane / 16) + lane % 16 * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (block + i >= kBlocks) continue;
            const int sums = kFirst + (block + i) * 4;
            const uint32_t high[2] = {b[0][2 * i], b[0][2 * i + 1]};
            multiply_block(acc, sums, a[0], high);
            if constexpr (kParts == 2) {
                const uint32_t low[2] = {b[1][2 * i], b[1][2 * i + 1]};
                multiply_block(acc, sums, a[0], low);
                multiply_block(acc, sums, a[1], high);
            }
        }
    }
}

/// Those of a group from one on. As a loop they would be too much to be unrolled.
template <int Group, int Run>
__device__ __forceinline__ void multiply_runs(Accumulators& acc, uint32_t cores, uint32_t weights) {
    if constexpr (Run < kGroupRun[Group + 1]) {
        multiply_run<Group, Run>(acc, cores, weights + (kRunUse[Run] - kGroupUse[Group]) * kUseBytes);
        multiply_runs<Group, Run + 1>(acc, cores, weights);
    }
}

template <int Group>
__device__ __forceinline__ void multiply_by_mma(Accumulators& acc, uint32_t cores, uint32_t weights) {
#pragma unroll 1
    for (int step = 0; step < kSummedSteps; ++step) {
        multiply_runs<Group, kGroupRun[Group]>(acc, cores + step * kStepBytes,
                                               weights + step * weight_step_bytes(Group));
    }
}

// ---- Either ----

/// kSummedSteps k steps from where `cores` and `weights` begin.
template <int Group>
__device__ __forceinline__ void multiply_group(Accumulators& acc, uint32_t cores, uint32_t weights) {
    if constexpr (kWgmma) {
        multiply_by_wgmma<Group>(acc, cores, weights);
    } else {
        multiply_by_mma<Group>(acc, cores, weights);
    }
}

/// Returns when the products of all groups but the last `kPending` are in the sums. Where warpgroups take turns each k
/// step counts. Behind a loop over several, the assembler counts the last one and its end as two, and a warpgroup waits
/// for its own products while the other's are multiplied; more of both in line were no faster.
template <int kPending>
__device__ __forceinline__ void wait_products() {
    if constexpr (kWgmma) ptx::wgmma_wait<kGathered ? kPending * kSteps : kPending>();
}

/// Gives stages back, each warp for itself, and each lane where lanes have read them.
__device__ __forceinline__ void give_back(uint32_t barrier) {
    if (threadIdx.x % 32 < kArrivals) ptx::barrier_arrive(barrier);
}

/// Waits for a stage of weights, and gives one back: where a CTA packs them for itself, they stay.
__device__ __forceinline__ void wait_weights(const Pipeline& pipe, RingPlace w) {
    if constexpr (!kOwnWeights) pipe.weights.wait_filled(w);
}
__device__ __forceinline__ void give_back_weights(const Pipeline& pipe, RingPlace w) {
    if constexpr (!kOwnWeights) give_back(pipe.weights.freed(w));
}

/// Multiplies a stage of src with all groups of taps, in all passes of a set of phases along H. `w` is the stage of
/// weights. While one group is multiplied, the one before it is given back. Calls `filled` when the last group is
/// there.
template <int Set, int Index, typename Filled>
__device__ __forceinline__ void multiply_stage(Accumulators& acc, const Pipeline& pipe, int s, RingPlace& w, bool first,
                                               Filled filled) {
    constexpr int kPass = kSetPass[Set] + Index / kTapGroups;
    if constexpr (kPass < kSetPass[Set + 1]) {
        wait_weights(pipe, w);
        if constexpr (Index + 1 == (kSetPass[Set + 1] - kSetPass[Set]) * kTapGroups) filled();
        multiply_group<Index % kTapGroups>(acc, pipe.src.at(s) + kPassOffset[kPass] * kPositionBytes,
                                           pipe.weights.at(w));
        wait_products<1>();
        if (Index > 0 || !first) give_back_weights(pipe, pipe.weights.before(w));
        if (Index == 0 && !first && !kKeeps) give_back(pipe.src.freed(s - 1));
        pipe.weights.next(w);
        multiply_stage<Set, Index + 1>(acc, pipe, s, w, first, filled);
    }
}

/// The same in fp32, one pass. Tensor cores cut off what a sum has no room for, always towards zero: after hundreds of
/// products more is lost than fp32 loses by rounding. So the products of a group have sums of their own, few k steps of
/// it at a time, which are added rounded; wgmma begins them with its first product.
template <int Group>
__device__ __forceinline__ void multiply_pass_rounded(Accumulators& acc, Accumulators& group, const Pipeline& pipe,
                                                      uint32_t cores, RingPlace& w) {
    if constexpr (Group < kTapGroups) {
        wait_weights(pipe, w);
#pragma unroll 1
        for (int step = 0; step < kSteps; step += kSummedSteps) {
            if constexpr (!kWgmma) clear(group);
            multiply_group<Group>(group, cores + step * kStepBytes,
                                  pipe.weights.at(w) + step * weight_step_bytes(Group));
            wait_products<0>();
            if (step + kSummedSteps == kSteps) give_back_weights(pipe, w);
            add<Group>(acc, group);
        }
        pipe.weights.next(w);
        multiply_pass_rounded<Group + 1>(acc, group, pipe, cores, w);
    }
}

__device__ __forceinline__ void multiply_stage_rounded(Accumulators& acc, const Pipeline& pipe, const Item& item, int s,
                                                       RingPlace& w) {
    Accumulators group;
    const int first = item.first_pass(), passes = item.passes();
#pragma unroll 1
    for (int pass = first; pass < first + passes; ++pass)
        multiply_pass_rounded<0>(acc, group, pipe, pipe.src.at(s) + entry(kPassOffset, pass) * kPositionBytes, w);
    give_back(pipe.src.freed(s));
}

/// Stages of src that follow one another.
struct RunningStages {
    int& s;
    __device__ __forceinline__ int at() const { return s; }
    __device__ __forceinline__ void next() { ++s; }
    /// When the products of all are in the sums; while those of one were multiplied, the one before was given back.
    __device__ __forceinline__ void end(const Pipeline& pipe) const { give_back(pipe.src.freed(s - 1)); }
};

/// The stages of some slices of src, one after another; w is the stage of weights. Calls `filled` when all there is to
/// multiply is in shared memory, and all products but those of the last group are under way.
template <int Set, typename Stages, typename Filled>
__device__ __forceinline__ void multiply_slices(Accumulators& acc, const Pipeline& pipe, const Item& item, int slices,
                                                Stages stages, RingPlace& w, Filled filled) {
    if constexpr (Set + 1 < kRowSets && kParts == 1) {
        if (item.row_set != Set) return multiply_slices<Set + 1>(acc, pipe, item, slices, stages, w, filled);
    }
#pragma unroll 1
    for (int chunk = 0; chunk < slices * kChunks; ++chunk, stages.next()) {
        const int s = stages.at();
        pipe.src.wait_filled(s);
        if constexpr (kParts == 2) {
            multiply_stage_rounded(acc, pipe, item, s, w);
        } else {
            multiply_stage<Set, 0>(acc, pipe, s, w, chunk == 0, [&] {
                if (chunk + 1 == slices * kChunks) filled();
            });
        }
    }
    if constexpr (kParts == 1) {
        wait_products<0>();
        give_back_weights(pipe, pipe.weights.before(w));
        stages.end(pipe);
    }
}

} // namespace
