// bwd_weight on mma.sync, in the reduced form:
//
//     grad_weight[ci, co, j] = Σ src[n, ci, i] · grad_dst[n, co, s·i − p + j·d]    over all images n and voxels i
//
// A CTA owns some channels of src and of grad_dst, a block of taps and a split: a range of the tiles of all images. A
// tile is a box of src voxels with the box of grad_dst that these meet through the taps. Both lie in shared memory as
// positions, a voxel's channels each, and voxels outside of a tensor are zeros, which add nothing. All taps multiply
// the same staged tile: src as it is, grad_dst from another position on. The depth of the products is the voxels of
// src.
//
// All threads do everything, one barrier for a tile. Between two barriers there are three tiles on their way:
//
//     global memory ──cp.async──► runs ──lay out──► positions ──ldmatrix, mma.sync──► sums ───► grad_weight, or the
//                     tile t + 2         tile t + 1              tile t                         sums of a split
//
// Where copies bring positions as they are (kCopiesPositions), there is nothing to lay out, and tile t + 1 is copied
// while tile t is multiplied.
#include "reduction/copy.cuh"
#include "reduction/lay_out.cuh"
#include "reduction/multiply.cuh"

namespace {

/// Multiplies tile `number` and lays out tile `next`, the one behind it, some rounds after each few k steps, so that
/// tensor cores have work meanwhile. Either is left out if it is no tile of the split.
__device__ __forceinline__ void multiply_tile(Sums& sums, const Reader& reader, const Item& item, int64_t number,
                                              const Tile& next, uint32_t shared_begin) {
    const bool multiplies = number >= item.first_tile, lays_out = number + 1 < item.end_tile;
    const uint32_t stage = src_stage(shared_begin, number);
#pragma unroll 1
    for (int step = 0; step < kBoxSteps; step += kSummedSteps) {
        if (multiplies) multiply_steps(sums, reader, stage, step);
        if constexpr (kTileRounds > 0) {
            const int next_step = min(step + kSummedSteps, kBoxSteps);
            const int end = lays_out ? next_step * kTileRounds / kBoxSteps : 0;
#pragma unroll 1
            for (int round = step * kTileRounds / kBoxSteps; round < end; ++round)
                lay_out_round(next, shared_begin, number + 1, round);
        }
    }
}

/// Multiplies all tiles of the split. The first iterations, with numbers before the first tile, only fill the stages.
__device__ __forceinline__ void multiply_split(Sums& sums, const ReductionArguments& args, const Item& item,
                                               uint32_t shared_begin) {
    constexpr int kAhead = kCopiesPositions ? 1 : 2; // tiles from the one that is multiplied to the one that is copied
    fill_met_table(shared_begin);
    clear_behind_box(shared_begin);
    const Reader reader(shared_begin);
    Walk walk(args.tiles, item.first_tile);
    if (item.first_tile < item.end_tile) copy_tile(Tile(args, item, walk), shared_begin, item.first_tile);
#pragma unroll 1
    for (int64_t number = item.first_tile + 1 - kAhead; number < item.end_tile; ++number) {
        ptx::copy_async_commit();
        ptx::copy_async_wait<0>();
        __syncthreads(); // what this tile and the next one need is there, and nobody reads what will be overwritten
        const Tile next(args, item, walk); // where positions are copied, nobody needs it
        walk.advance(args.tiles);
        if (number + kAhead < item.end_tile) copy_tile(Tile(args, item, walk), shared_begin, number + kAhead);
        multiply_tile(sums, reader, item, number, next, shared_begin);
    }
}

__device__ __forceinline__ void store_sums(const ReductionArguments& args, const Item& item, const Sums& sums) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < kWarpNTiles; ++i) {
        const NTile n_tile(i);
        const int tap_d = item.tap_d + n_tile.tap_d(), tap_h = item.tap_h + n_tile.tap_h(),
                  tap_w = item.tap_w + n_tile.tap_w();
        if (n_tile.tap < 0 || tap_d >= kKernelD || tap_h >= kKernelH || tap_w >= kKernelW) continue;
        const int64_t tap = (int64_t{tap_d} * kKernelH + tap_h) * kKernelW + tap_w;
#pragma unroll
        for (int m = 0; m < kWarpMTiles; ++m)
#pragma unroll
            for (int value = 0; value < 4; ++value) {
                const int src_channel = item.src_first + (row_warp() * kWarpMTiles + m) * 16 + value / 2 * 8 + g;
                const int dst_channel = item.dst_first + n_tile.channel + 2 * t + value % 2;
                if (src_channel < kSrcChannels && dst_channel < kDstChannels)
                    store_sum(args.sums, item, src_channel, dst_channel, tap, sums.values[m][i][value]);
            }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kCtas)
    reduction(const __grid_constant__ ReductionArguments args) {
    extern __shared__ __align__(128) unsigned char shared[];
    const Item item(args);
    Sums sums = {};
    multiply_split(sums, args, item, ptx::shared_address(shared));
    store_sums(args, item, sums);
}
