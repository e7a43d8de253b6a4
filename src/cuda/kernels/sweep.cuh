// bwd_weight on wgmma, in the swept form:
//
//     grad_weight[ci, co, j] = Σ src[n, ci, i] · grad_dst[n, co, s·i − p + j·d]    over all images n and voxels i
//
// One of the two tensors is *fixed*, the other one is *moved*: a tap says which voxels of the moved tensor the voxels
// of the fixed one meet. A product (one wgmma) has
//
//     rows      a tap and a channel of the moved tensor   the left operand, in registers
//     columns   channels of the fixed tensor              the right operand, in shared memory by a descriptor
//     depth     16 (fp32: 8) voxels of the fixed tensor
//
// A CTA owns channels of both tensors, a block of taps, and a split: a range of the slices of all tiles of all images.
// It sweeps a tile of the fixed tensor's plane along D, slice by slice, and keeps the slices of the moved tensor that
// taps along D still need, so that each of these is loaded once for all taps.
//
//     global memory     shared memory                            registers
//     fixed tensor ───► stages: a slice of the tile each ──────► right operand ┐
//     moved tensor ───► a ring of slots: a slice each ─────────► left operand ─┴► sums ───► grad_weight, or the sums
//              producers: 8 warps                    consumers: 2 warpgroups                of a split
//
// Each stage has a barrier that says it is full, with all slots that its slice meets, and one that says it is empty.
#include "sweep/multiply.cuh"
#include "sweep/produce.cuh"

namespace {

/// The index along a dimension of kKernel taps in grad_weight. Where src is moved, taps are counted from the last one.
template <int kKernel>
__device__ __forceinline__ int kernel_tap(int tap) {
    return kMovesSrc ? kKernel - 1 - tap : tap;
}

/// Stores the sums of this thread, whose rows and columns `Sums` tells.
__device__ __forceinline__ void store_sums(const SweepArguments& args, const Item& item, const Sums& sums) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < kMTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int number = first_row(tile) + i * 8;
            const Row row(number);
            const int tap_d = item.tap_d + row.tap_d(), tap_h = item.tap_h + row.tap_h(),
                      tap_w = item.tap_w + row.tap_w(), moved = item.moved_first + row.channel;
            if (number >= kRows || tap_d >= kKernelD || tap_h >= kKernelH || tap_w >= kKernelW ||
                moved >= kMovedChannels)
                continue;
            const int64_t tap =
                (int64_t{kernel_tap<kKernelD>(tap_d)} * kKernelH + kernel_tap<kKernelH>(tap_h)) * kKernelW +
                kernel_tap<kKernelW>(tap_w);
#pragma unroll
            for (int column = 0; column < kTileFixedChannels / 4; ++column) {
                const int fixed = item.fixed_first + column / 2 * 8 + 2 * t + column % 2;
                if (fixed < kFixedChannels)
                    store_sum(args.sums, item, kMovesSrc ? moved : fixed, kMovesSrc ? fixed : moved, tap,
                              sums.values[tile][column / 2 * 4 + i * 2 + column % 2]);
            }
        }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1) sweep(const __grid_constant__ SweepArguments args) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Pipeline pipe = {ptx::shared_address(shared)};
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kStages; ++stage) {
            ptx::barrier_init(pipe.full(stage), kProducers * (kHasCopies ? 2 : 1));
            ptx::barrier_init(pipe.empty(stage), kConsumers * 4);
        }
        ptx::fence_barrier_init();
    }
    __syncthreads();
    const Item item(args);
    if (threadIdx.x >= kConsumers * 128) {
        ptx::give_registers<kProducerRegisters>();
        produce(args, item, pipe, threadIdx.x - kConsumers * 128);
    } else {
        ptx::take_registers<kConsumerRegisters>();
        Sums sums = {};
        consume(args, item, pipe, sums);
        store_sums(args, item, sums);
    }
}
