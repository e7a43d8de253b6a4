// fwd, gathered along D (docs/design.md). A CTA owns a tile of positions q of a plane and 64 output channels, and makes
// one output slice after another: the products of its source slices, then bias, epilogue and store. Channels are the
// rows of a product and positions its columns, up to 256 of them: few bytes of shared memory for a product.
//
// The warpgroups take turns: while one stores a slice, the other one multiplies the next.
// Constants: see stream_shape.cuh, gather_store.cuh and output.cuh; and wgmmas<Group>().
#include "gather_store.cuh"
#include "stream_roles.cuh"

namespace {

/// Slices of src that a step multiplies.
__device__ __forceinline__ int slices_of(const StreamArgs& args, const Step& step) {
    int count = 0;
    for (int tap = kPhaseTapD[step.phase]; tap < kPhaseTapD[step.phase + 1]; ++tap) count += step.has(args, tap);
    return count;
}

__device__ __forceinline__ void consume(const StreamArgs& args, const Output& output, const Pipeline& pipe) {
    Accumulators acc;
    int s = 0, w = 0, steps = 0; // stages of src and of weights, and steps so far
    // The same in all lanes, and the assembler knows: it would serialise products in a branch that lanes may leave.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
#pragma unroll 1
    for (Items items(args); !items.done(); items.next()) {
        Item& item = items.item;
        const VectorPlaces places(args, item, pipe);
#pragma unroll 1
        for (int index = item.q_d; index < item.q_d_end; ++index, ++steps) {
            const Step step(index);
            const int slices = slices_of(args, step);
            item.row_set = step.row_set;
            if (steps % kConsumers != warpgroup) {
                s += slices * kChunks;
                w += slices * kChunks * (item.last_pass() - item.first_pass() + 1) * kTapGroups;
                continue;
            }
            clear(acc);
            pipe.turns.wait(steps);
            if (slices > 0) {
                multiply_slices<0>(acc, pipe, item, slices, s, w, [&] { pipe.turns.give(steps); });
            } else {
                pipe.turns.give(steps);
            }
            store_gathered(acc, output, places.of_rows(item), slice_of(args, item, step.d(), step.d() < args.dst_d));
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    stream_fwd(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ StreamArgs args,
               const __grid_constant__ Output output) {
    run_roles(map, args, [&](const Pipeline& pipe) { consume(args, output, pipe); });
}
