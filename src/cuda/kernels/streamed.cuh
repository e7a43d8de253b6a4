// fwd and bwd_data in the streamed form (docs/design.md). A CTA owns a tile of positions q of a plane and some output
// channels, and walks the input slices from front to back. It multiplies each slice, for every tap (h, w), with the
// weights of all taps along D at once. The accumulators have a slot for each open output slice, a ring of slots for
// each phase along D. After a slice, one slot of each D phase is finished: it gets bias and epilogue, is stored and
// cleared.
//
//     weights, in tap groups ── TMA ──────────────────────► stages ┐
//     input slices ── TMA ──► raw stages ── rearrange ────► stages ┴► consumers: wgmma or mma.sync, finish ──► output
//
// schedule/roles.cuh says which warps do what. The constants are those of cuda/source/constants.cpp; the products are
// wgmmas<Group>() or multiply_fragments(), which the host writes.
#include "load/own_weights.cuh"
#include "multiply/stages.cuh"
#include "schedule/roles.cuh"
#include "store/streamed.cuh"

namespace {

/// The positions along D that a CTA passes, item after item. A position has an input slice, or one of each input plane;
/// one outside of the input has none, but finishes outputs.
struct PassedSlices {
    Items items;
    int slice;

    __device__ __forceinline__ explicit PassedSlices(const TensorCoreArguments& args)
        : items(args), slice(kShiftMaxD) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ bool first() const { return slice == item().q_d + kShiftMinD; }
    __device__ __forceinline__ bool next() {
        if (++slice < item().q_d_end + kShiftMaxD) return true;
        if (!items.next()) return false;
        slice = item().q_d + kShiftMinD;
        return true;
    }
};

__device__ __forceinline__ void consume(const TensorCoreArguments& args, const Output& output, const Pipeline& pipe) {
    Accumulators acc;
    LaneOutputs outputs;
    OwnWeights own;
    int s = 0;
    PipelineState w;
    const int warpgroup = uniform_warpgroup();
#pragma unroll 1
    for (PassedSlices at(args); at.next();) {
        if (at.first()) {
            outputs.enter(args, at.item());
            if constexpr (kOwnWeights) own.enter(args, at.item(), pipe); // which may use the accumulators' registers
            clear(acc);
        }
        if ((kAnySize || kActiveConsumers < kConsumers) && warpgroup >= Geometry(args).consumers())
            continue; // it has no voxels
        // Slices from this position to the last one.
        const int left = args.in_slices - at.slice * kInPlanesD;
        if (at.slice >= 0 && left > 0)
            multiply_slices<0>(acc, pipe, at.item(), kInPlanesD == 1 ? 1 : min(left, kInPlanesD), ConsecutiveStages{s},
                               w, [] {});
        finish_slice<0>(acc, args, output, at.item(), pipe, outputs, at.slice);
    }
    if constexpr (kStore == Store::bulk_rows) ptx::copy_bulk_out_wait<0>();
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    streamed(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ TensorCoreArguments args,
             const __grid_constant__ Output output) {
    run_roles(map, args, [&](const Pipeline& pipe) { consume(args, output, pipe); }, [](const Pipeline&) {});
}
