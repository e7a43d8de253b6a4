#pragma once

// The consumers. The left operand of a product comes from registers: a row is a channel of the moved tensor at a tap,
// and lanes load its voxels from wherever the tap moves to. The right operand, the fixed tensor, comes from shared
// memory by a descriptor.
//
// The nesting of the loops, and what hides the latency of shared memory:
//
//     slice       a stage of the fixed tensor, and the slots that it meets
//       iteration   kIterationLines lines of the tile, a line being some k steps along a row: the unrolled code
//         group       some products of the iteration, one wgmma group: while it is multiplied, lanes load the rows
//                     of the next group into the other one of two sets of registers
//           product     one wgmma: a k step of an m64 tile of rows
#include "sweep/walk.cuh"

namespace {

/// The accumulators of a thread. Of each m64 tile it has rows g and g + 8 of its warp's 16, and of each 8 columns the
/// columns 2t and 2t + 1, with g = lane / 4 and t = lane % 4.
struct Sums {
    float values[kMTiles][kTileFixedChannels / 2];
};

/// The first of the two rows that this thread has of an m64 tile, counted through the CTA.
__device__ __forceinline__ int first_row(int tile) {
    return ((threadIdx.x / 128 * kMTiles + tile) * 4 + threadIdx.x / 32 % 4) * 16 + threadIdx.x % 32 / 4;
}

/// The tap and the channel that a row stands for, counted from the first ones of the CTA. A row behind the last one is
/// computed as the first row, and not stored.
struct Row {
    int tap, channel;

    __device__ __forceinline__ explicit Row(int row)
        : tap(row < kRows ? row / kTileMovedChannels : 0), channel(row < kRows ? row % kTileMovedChannels : 0) {}
    __device__ __forceinline__ int tap_d() const { return tap / (kBlockTapsH * kBlockTapsW); }
    __device__ __forceinline__ int tap_h() const { return tap / kBlockTapsW % kBlockTapsH; }
    __device__ __forceinline__ int tap_w() const { return tap % kBlockTapsW; }
};

// A k step is two cells of the fixed tensor. They are neighbours in a row, or belong to two rows where each row has one
// cell. A line is a row, or such a pair of rows.
constexpr int kLineRows = kRowCells == 1 ? 2 : 1;
constexpr int kLines = kTileH / kLineRows;
constexpr int kLineSteps = kRowCells == 1 ? 1 : kRowCells / 2;

// Bytes of a slot from what the first cell of a k step meets to what its second cell meets, and from a line to the
// next.
constexpr int kMetRowBytes = kMovedStrideH * kPlane.row_bytes();
constexpr int kSecondCell = kRowCells == 1 ? kMetRowBytes : kPlane.next_cell_bytes();
constexpr int kLineBytes = kLineRows * kMetRowBytes;

// The products of an iteration, numbered by k step and then by m64 tile, are divided into groups. Groups are an even
// number, so that each iteration begins with the first set of registers.
constexpr int kIterations = kLines / kIterationLines;
constexpr int kIterationProducts = kIterationLines * kLineSteps * kMTiles;
static_assert(kLines % kIterationLines == 0 && kIterationGroups % 2 == 0 && kIterationGroups <= kIterationProducts,
              "the host chooses such iterations");
constexpr int kGroupProducts = (kIterationProducts + kIterationGroups - 1) / kIterationGroups;

constexpr int first_product(int group) {
    return group * kIterationProducts / kIterationGroups;
}
constexpr int group_products(int group) {
    return first_product(group + 1) - first_product(group);
}

/// What a lane has of the left operands of a group.
struct Fragments {
    uint32_t words[kGroupProducts][4];
};

// How lanes load the rows of an m64 tile. ldmatrix transposes chunks of 16-bit elements: a lane gives it the address of
// a voxel's chunk, of rows 0 to 7 or 8 to 15 of its warp's 16 and of the first or the second cell. Else a lane loads
// words of its two rows.
constexpr bool kByMatrices = kMovedChunks && kElementBytes == 2;
constexpr int kTileAddresses = kByMatrices ? 1 : 2;

/// The addresses at which the rows that this thread loads begin, in the slots that their taps meet. From a slice to the
/// next they move on by as many slots as slices are not needed any more.
struct RowAddresses {
    uint32_t at[kMTiles][kTileAddresses];

    __device__ __forceinline__ explicit RowAddresses(const Pipeline& pipe) {
        constexpr SweepPlane plane = kPlane;
        constexpr SweepDepth depth = kDepth;
        const int lane = threadIdx.x % 32;
        const int voxel_bytes =
            kByMatrices ? lane % 8 * 16 + lane / 16 * kSecondCell : lane % 4 * (kMovedChunks ? 16 : 4);
#pragma unroll
        for (int tile = 0; tile < kMTiles; ++tile)
#pragma unroll
            for (int i = 0; i < kTileAddresses; ++i) {
                const int first = kByMatrices ? first_row(tile) - lane / 4 + lane / 8 % 2 * 8 : first_row(tile) + i * 8;
                const Row row(first);
                at[tile][i] = pipe.moved(depth.tap_slice(row.tap_d())) + plane.channel_byte(row.channel) +
                              plane.tap_byte(row.tap_h(), row.tap_w()) + voxel_bytes;
            }
    }
    __device__ __forceinline__ void advance(const Pipeline& pipe, int slices) {
#pragma unroll
        for (int tile = 0; tile < kMTiles; ++tile)
#pragma unroll
            for (int i = 0; i < kTileAddresses; ++i) {
                at[tile][i] += slices * kSlotBytes;
                if (at[tile][i] >= pipe.moved(kSlots)) at[tile][i] -= kSlots * kSlotBytes;
            }
    }
};

// Whether fp32 of the moved tensor was copied as it is, so that consumers round it.
constexpr bool kRoundsRows = kElementBytes == 4 && (kMovedChunks || kCopiesWords);

/// Rounds to tf32, halves away from zero: adds half of the last place of tf32, and tensor cores cut off what lies
/// below. Infinities stay infinite and NaN stays NaN.
__device__ __forceinline__ uint32_t round_to_tf32(uint32_t bits) {
    constexpr float kHalfPlace = 1.0f / 2048;
    const float exponent = __uint_as_float(bits & 0xFF800000);
    return __float_as_uint(fmaf(exponent, kHalfPlace, __uint_as_float(bits)));
}

/// Loads the rows of an m64 tile for a k step, `offset` bytes behind where they begin.
__device__ __forceinline__ void load_tile(uint32_t (&words)[4], const RowAddresses& rows, int tile, uint32_t offset) {
    if constexpr (kByMatrices) {
        ptx::load_matrices_transposed(words, rows.at[tile][0] + offset);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[i] = ptx::load_shared(rows.at[tile][i % 2] + offset + i / 2 * kSecondCell);
            if constexpr (kRoundsRows) words[i] = round_to_tf32(words[i]);
        }
    }
}

/// Loads the rows of a group of the iteration that begins `offset` bytes behind where rows begin.
template <int kGroup>
__device__ __forceinline__ void load_rows(Fragments& fragments, const RowAddresses& rows, uint32_t offset) {
#pragma unroll
    for (int i = 0; i < group_products(kGroup); ++i) {
        const int step = (first_product(kGroup) + i) / kMTiles, tile = (first_product(kGroup) + i) % kMTiles;
        const int at = step / kLineSteps * kLineBytes + step % kLineSteps * (2 * kPlane.next_cell_bytes());
        load_tile(fragments.words[i], rows, tile, offset + at);
    }
}

/// Issues the products of a group. `columns` is the descriptor of the fixed tensor at the iteration's first k step.
template <int kGroup>
__device__ __forceinline__ void multiply_group(Sums& sums, const Fragments& fragments, uint64_t columns) {
#pragma unroll
    for (int i = 0; i < group_products(kGroup); ++i) {
        const int step = (first_product(kGroup) + i) / kMTiles, tile = (first_product(kGroup) + i) % kMTiles;
        multiply_tile(sums.values[tile], fragments.words[i], columns + step * (2 * kCellPitch / 16));
    }
}

/// Multiplies the groups of an iteration from kGroup on, whose rows have been loaded, and loads those of the next
/// group. Behind the last group that is the first one of the next iteration, unless this is the `last`.
template <int kGroup>
__device__ __forceinline__ void multiply_iteration(Sums& sums, Fragments (&sets)[2], const RowAddresses& rows,
                                                   uint32_t offset, uint64_t columns, bool last) {
    if constexpr (kGroup < kIterationGroups) {
        ptx::wgmma_fence();
        multiply_group<kGroup>(sums, sets[kGroup % 2], columns);
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>(); // the other set is free
        if constexpr (kGroup + 1 < kIterationGroups) {
            load_rows<kGroup + 1>(sets[(kGroup + 1) % 2], rows, offset);
        } else if (!last) {
            load_rows<0>(sets[0], rows, offset + kIterationLines * kLineBytes);
        }
        multiply_iteration<kGroup + 1>(sums, sets, rows, offset, columns, last);
    }
}

/// Multiplies a slice, whose stage of the fixed tensor begins at the byte `fixed` of shared memory.
__device__ __forceinline__ void multiply_slice(Sums& sums, const RowAddresses& rows, uint32_t fixed) {
    Fragments sets[2];
    load_rows<0>(sets[0], rows, 0);
    constexpr int kColumnsPitch = kFixedChunks ? kPlane.fixed_plane_bytes() : 128; // from 8 columns to the next 8
    uint64_t columns = ptx::wgmma_descriptor(fixed, kCellPitch, kColumnsPitch, ptx::Swizzle::none);
#pragma unroll 1
    for (int iteration = 0; iteration < kIterations; ++iteration) {
        multiply_iteration<0>(sums, sets, rows, iteration * (kIterationLines * kLineBytes), columns,
                              iteration == kIterations - 1);
        columns += kIterationLines * kLineSteps * (2 * kCellPitch / 16);
    }
    ptx::wgmma_wait<0>();
}

__device__ __forceinline__ void consume(const SweepArguments& args, const Item& item, const Pipeline& pipe,
                                        Sums& sums) {
    RowAddresses rows(pipe);
#pragma unroll 1
    for (Walk walk(args, item); walk.passed < item.slices;) {
        ptx::barrier_wait(pipe.full(walk.stage()), walk.parity());
        if constexpr (kFixedCopied) ptx::fence_shared_async(); // wgmma reads what cp.async has written
        multiply_slice(sums, rows, pipe.fixed(walk.stage()));
        __syncwarp();
        if (threadIdx.x % 32 == 0) ptx::barrier_arrive(pipe.empty(walk.stage()));
        rows.advance(pipe, walk.advance());
    }
}

} // namespace
