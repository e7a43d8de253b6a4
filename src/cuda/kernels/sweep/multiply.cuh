#pragma once

// The consumers. The left operand of the products comes from registers: a row is a channel of the moved tensor at a
// tap, and lanes load its voxels from wherever the tap moves to. The right operand, the fixed tensor, comes from shared
// memory by descriptors. While some tiles of a k step are multiplied, the rows of the next ones are loaded.
#include "sweep/walk.cuh"

namespace {

/// The sums of a thread in tiles of 64 rows: of each 8 columns, columns 2t and 2t + 1 of rows g and g + 8 of its warp,
/// with g = lane / 4 and t = lane % 4.
struct Sums {
    float values[kTiles][kTileFixedChannels / 2];
};

/// The first of the two rows that this thread has of a tile, counted through the CTA.
__device__ __forceinline__ int first_row(int tile) {
    return ((threadIdx.x / 128 * kTiles + tile) * 4 + threadIdx.x / 32 % 4) * 16 + threadIdx.x % 32 / 4;
}

/// Where the tap and the channel of a row are. Rows behind the last one are computed like the first, and not stored.
struct Row {
    int tap, channel;

    __device__ __forceinline__ explicit Row(int row)
        : tap(row < kRows ? row / kTileMovedChannels : 0), channel(row < kRows ? row % kTileMovedChannels : 0) {}
    __device__ __forceinline__ int tap_d() const { return tap / (kBlockTapsH * kBlockTapsW); }
    __device__ __forceinline__ int tap_h() const { return tap / kBlockTapsW % kBlockTapsH; }
    __device__ __forceinline__ int tap_w() const { return tap % kBlockTapsW; }
};

// The k steps of a tile are along its rows. A line is a row, or two rows where each has one cell.
constexpr int kLineRows = kRowCells == 1 ? 2 : 1;
constexpr int kLines = kTileH / kLineRows;
constexpr int kLineSteps = kRowCells == 1 ? 1 : kRowCells / 2;
constexpr int kRowBytes = kMovedStrideH * kPlane.row_bytes(); // to what the next row of the fixed tensor meets
constexpr int kSecondCell = kRowCells == 1 ? kRowBytes : kPlane.next_cell_bytes();
constexpr int kLineBytes = kLineRows * kRowBytes;

// A round is some lines. Its products, of all tiles in each k step, are multiplied in groups, which take turns with two
// sets of registers. Groups are an even number, so that each round begins with the first set.
constexpr int kRoundProducts = kRoundLines * kLineSteps * kTiles;
constexpr int kRounds = kLines / kRoundLines;
static_assert(kLines % kRoundLines == 0 && kRoundGroups % 2 == 0 && kRoundGroups <= kRoundProducts,
              "the host chooses such rounds");
constexpr int kGroupProducts = (kRoundProducts + kRoundGroups - 1) / kRoundGroups;

/// The first product of a group. Products are numbered tile by tile in each k step.
constexpr int first_product(int group) {
    return group * kRoundProducts / kRoundGroups;
}
constexpr int group_products(int group) {
    return first_product(group + 1) - first_product(group);
}

struct Fragments {
    uint32_t words[kGroupProducts][4];
};

// Chunks of 16-bit elements are transposed by ldmatrix, for which each lane has the address of a voxel's chunk: of rows
// 0 to 7 or 8 to 15 of its warp's tile, and of the first or the second cell. Else a lane loads words of two rows.
constexpr bool kByMatrices = kMovedChunks && kElementBytes == 2;
constexpr int kTileAddresses = kByMatrices ? 1 : 2;

/// The addresses at which the rows that this thread loads begin, in the slots that their taps meet.
struct RowAddresses {
    uint32_t at[kTiles][kTileAddresses];

    __device__ __forceinline__ explicit RowAddresses(const Pipeline& pipe) {
        constexpr SweepPlane plane = kPlane;
        constexpr SweepDepth depth = kDepth;
        const int lane = threadIdx.x % 32;
        const int voxel_bytes =
            kByMatrices ? lane % 8 * 16 + lane / 16 * kSecondCell : lane % 4 * (kMovedChunks ? 16 : 4);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
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
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int i = 0; i < kTileAddresses; ++i) {
                at[tile][i] += slices * kSlotBytes;
                if (at[tile][i] >= pipe.moved(kSlots)) at[tile][i] -= kSlots * kSlotBytes;
            }
    }
};

constexpr bool kRoundsRows = kElementBytes == 4 && (kMovedChunks || kCopiesWords);

/// Rounds to tf32, halves away from zero: adds half of the last place of tf32, and tensor cores cut off what lies
/// below. Infinities stay infinite and NaN stays NaN.
__device__ __forceinline__ uint32_t rounded_up(uint32_t bits) {
    constexpr float kHalfPlace = 1.0f / 2048;
    const float exponent = __uint_as_float(bits & 0xFF800000);
    return __float_as_uint(fmaf(exponent, kHalfPlace, __uint_as_float(bits)));
}

/// Loads the rows of a tile, and rounds what was copied as it is.
__device__ __forceinline__ void load_tile(uint32_t (&words)[4], const RowAddresses& rows, int tile, uint32_t offset) {
    if constexpr (kByMatrices) {
        ptx::load_matrices_transposed(words, rows.at[tile][0] + offset);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[i] = ptx::load_shared(rows.at[tile][i % 2] + offset + i / 2 * kSecondCell);
            if constexpr (kRoundsRows) words[i] = rounded_up(words[i]);
        }
    }
}

/// Loads the rows of a group of a round, from `offset` bytes behind where they begin.
template <int kGroup>
__device__ __forceinline__ void load_rows(Fragments& fragments, const RowAddresses& rows, uint32_t offset) {
#pragma unroll
    for (int i = 0; i < group_products(kGroup); ++i) {
        const int step = (first_product(kGroup) + i) / kTiles, tile = (first_product(kGroup) + i) % kTiles;
        const int at = step / kLineSteps * kLineBytes + step % kLineSteps * (2 * kPlane.next_cell_bytes());
        load_tile(fragments.words[i], rows, tile, offset + at);
    }
}

template <int kGroup>
__device__ __forceinline__ void multiply_group(Sums& sums, const Fragments& fragments, uint64_t columns) {
#pragma unroll
    for (int i = 0; i < group_products(kGroup); ++i) {
        const int step = (first_product(kGroup) + i) / kTiles, tile = (first_product(kGroup) + i) % kTiles;
        multiply_tile(sums.values[tile], fragments.words[i], columns + step * (2 * kCellPitch / 16));
    }
}

/// Multiplies the groups of a round from kGroup on. The rows of each but the first have been loaded before.
template <int kGroup>
__device__ __forceinline__ void multiply_round(Sums& sums, Fragments (&sets)[2], const RowAddresses& rows,
                                               uint32_t offset, uint64_t columns, bool last) {
    if constexpr (kGroup < kRoundGroups) {
        ptx::wgmma_fence();
        multiply_group<kGroup>(sums, sets[kGroup % 2], columns);
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>(); // the other set is free
        if constexpr (kGroup + 1 < kRoundGroups) {
            load_rows<kGroup + 1>(sets[(kGroup + 1) % 2], rows, offset);
        } else if (!last) {
            load_rows<0>(sets[0], rows, offset + kRoundLines * kLineBytes);
        }
        multiply_round<kGroup + 1>(sums, sets, rows, offset, columns, last);
    }
}

__device__ __forceinline__ void multiply_slice(Sums& sums, const RowAddresses& rows, uint32_t fixed) {
    Fragments sets[2];
    load_rows<0>(sets[0], rows, 0);
    constexpr int kColumnsPitch = kFixedChunks ? kPlane.fixed_plane_bytes() : 128; // of 8 columns
    uint64_t columns = ptx::wgmma_descriptor(fixed, kCellPitch, kColumnsPitch, ptx::Swizzle::none);
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
        multiply_round<0>(sums, sets, rows, round * (kRoundLines * kLineBytes), columns, round == kRounds - 1);
        columns += kRoundLines * kLineSteps * (2 * kCellPitch / 16);
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
