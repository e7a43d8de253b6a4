// bwd_weight on tensor cores, in the reduced form: grad_weight[ci, co, j] sums src[n, ci, i] · grad_dst[n, co, s·i − p
// + j·d] over all images n and voxels i.
//
// A CTA owns some channels of src and of grad_dst, a block of taps and a split: a range of the tiles of all images. A
// tile is a box of src voxels with the box of grad_dst that these meet through the taps. All taps multiply the same
// staged tile: of src as it is, of grad_dst from another position. Voxels outside of a tensor are staged as zeros,
// which add nothing. While a tile is multiplied, the next one is laid out and the one behind it copied; or, where
// copies bring positions as they are, the next one is copied.
#include "reduction/copy.cuh"
#include "reduction/lay_out.cuh"
#include "reduction/multiply.cuh"

namespace {

/// Multiplies a tile, if it is one of the split, and lays out the next one, if that is: some of it after each few
/// k steps, so that tensor cores have work meanwhile.
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

__device__ __forceinline__ void multiply_split(Sums& sums, const ReductionArguments& args, const Item& item,
                                               uint32_t shared_begin) {
    constexpr int kAhead = kCopiesPositions ? 1 : 2; // tiles from the one that is multiplied to the one that is copied
    prepare_shared(shared_begin);
    const Reader reader(shared_begin);
    Walk walk(args.tiles, item.first_tile);
    if (item.first_tile < item.end_tile) copy_tile(Tile(args, item, walk), shared_begin, item.first_tile);
#pragma unroll 1
    for (int64_t number = item.first_tile + 1 - kAhead; number < item.end_tile; ++number) {
        ptx::copy_async_commit();
        ptx::copy_async_wait<0>();
        __syncthreads(); // what this tile and the next one need is there, and nobody reads what will be overwritten
        const Tile before(args, item, walk);
        walk.advance(args.tiles);
        if (number + kAhead < item.end_tile) copy_tile(Tile(args, item, walk), shared_begin, number + kAhead);
        multiply_tile(sums, reader, item, number, before, shared_begin);
    }
}

__device__ __forceinline__ void store_sums(const ReductionArguments& args, const Item& item, const Sums& sums) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < kWarpColumns; ++i) {
        const Column column(i);
        const int tap_d = item.tap_d + column.tap_d(), tap_h = item.tap_h + column.tap_h(),
                  tap_w = item.tap_w + column.tap_w();
        if (column.tap < 0 || tap_d >= kKernelD || tap_h >= kKernelH || tap_w >= kKernelW) continue;
        const int64_t tap = (int64_t{tap_d} * kKernelH + tap_h) * kKernelW + tap_w;
#pragma unroll
        for (int m = 0; m < kWarpRows; ++m)
#pragma unroll
            for (int value = 0; value < 4; ++value) {
                const int src_channel = item.src_first + (row_warp() * kWarpRows + m) * 16 + value / 2 * 8 + g;
                const int dst_channel = item.dst_first + column.channel + 2 * t + value % 2;
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
