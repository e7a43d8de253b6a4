// bwd_weight on wgmma, in the outer form, for 16 bits:
//
//     grad_weight[ci, co, j] = Σ src[n, ci, i] · grad_dst[n, co, s·i − p + j·d]    over all images n and voxels i
//
// For one tap j that is a sum of outer products: the channels of a voxel of src, times those of the voxel of grad_dst
// that it meets. A product (one wgmma) adds up 16 of them:
//
//     rows      64 channels of one tensor
//     columns   channels of the other tensor
//     depth     16 voxels of src
//
// Both operands stay in shared memory, voxel by voxel, each with its channels side by side; wgmma transposes both.
//
// A CTA owns channels of both tensors, a block of taps, and a split: a range of the boxes of all slices and images. It
// stages box after box of src, each with the *planes* of grad_dst that it meets: for each tap along D of the block its
// slice, and for each phase along H and W every stride-th voxel of it. In a plane a tap is a number of voxels.
//
//     channels_last_3d    ──TMA──────────────────────────────────────► stages ──► sums ───► grad_weight, or the sums
//     NCDHW               ──TMA──► raw boxes ──transposed by 4 warps──►                     of a split
//                         producers: 1 warpgroup                       consumers: 2 warpgroups
//
// Each consumer has half of the taps of the block.
//
// Each stage has a barrier that says it is full and one that says it is empty; each raw box has one that says it is
// full, and is empty when all producers have met.
#include "outer/multiply.cuh"
#include "outer/produce.cuh"
#include "outer/transpose.cuh"

namespace {

// From a row of the products to the next one among the sums, and from a column.
constexpr int64_t kRowStep = kRowsAreDst ? kDstChannelStep : kSrcChannelStep;
constexpr int64_t kColumnStep = kRowsAreDst ? kSrcChannelStep : kDstChannelStep;

/// Stores the sums of this thread, whose rows and columns `Sums` tells.
__device__ __forceinline__ void store_sums(const OuterArguments& args, const Item& item, const Sums& sums) {
    const int row = item.row_first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    const int column = item.column_first + threadIdx.x % 4 * 2, first = first_tap(item);
#pragma unroll
    for (int tap = 0; tap < kWarpgroupTaps; ++tap) {
        const int number = kTapNumber[first + tap];
        if (number < 0) continue; // the last block may have fewer taps
        const int64_t at = sum_number(item, kRowsAreDst ? column : row, kRowsAreDst ? row : column, number);
#pragma unroll
        for (int i = 0; i < kTileColumns / 2; ++i)
            store_numbered(args.sums, at + i / 2 % 2 * 8 * kRowStep + (i / 4 * 8 + i % 2) * kColumnStep,
                           sums.values[tap][i]);
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    outer(const __grid_constant__ ptx::TensorMap src, const __grid_constant__ ptx::TensorMap dst,
          const __grid_constant__ OuterArguments args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Pipeline pipe = {ptx::shared_address(shared)};
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::barrier_init(pipe.full(stage), 1);
            ptx::barrier_init(pipe.empty(stage), kWarpgroups * 4);
        }
        for (int raw = 0; raw < kRawStages; ++raw) ptx::barrier_init(pipe.raw_full(raw), 1);
        ptx::fence_barrier_init();
    }
    __syncthreads();
    const Item item(args);
    if (threadIdx.x >= OuterThreads::kConsumers) {
        ptx::give_registers<OuterThreads::kProducerRegisters>();
        if constexpr (kChannelsLast) {
            produce(src, dst, args, item, pipe);
        } else {
            produce_transposed(src, dst, args, item, pipe);
        }
    } else {
        ptx::take_registers<OuterThreads::kConsumerRegisters>();
        Sums sums = {};
        consume(item, pipe, sums);
        store_sums(args, item, sums);
    }
}
