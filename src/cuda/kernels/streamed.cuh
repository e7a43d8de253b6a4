// fwd, streamed along D (docs/design.md). A CTA owns a tile of positions q of a plane and some output channels, and
// walks the source slices. Each slice multiplies, for every tap (h, w), the weights of all taps along D at once: the
// accumulators hold one slot per open output slice, a ring per D phase. When a slice is done, one slot per D phase is
// finished, gets the epilogue, is stored and cleared.
//
// One warpgroup fills the stages (two of its warps copy, two arrange), the others multiply and store.
// Constants: see stream_shape.cuh, stream_store.cuh and output.cuh; and wgmmas<Group>() or multiply_fragments().
#include "load/own_weights.cuh"
#include "schedule/roles.cuh"
#include "store/streamed.cuh"

namespace {

/// The slices that a CTA passes, item after item. Those outside src hold nothing, but finish outputs.
struct Slices {
    Items items;
    int slice;

    __device__ __forceinline__ explicit Slices(const StreamArgs& args) : items(args), slice(kDeltaMaxD) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ bool first() const { return slice == item().q_d + kDeltaMinD; }
    __device__ __forceinline__ bool next() {
        if (++slice < item().q_d_end + kDeltaMaxD) return true;
        if (!items.next()) return false;
        slice = item().q_d + kDeltaMinD;
        return true;
    }
};

__device__ __forceinline__ void consume(const StreamArgs& args, const Output& output, const Pipeline& pipe) {
    Accumulators acc;
    Storing storing;
    OwnWeights own;
    int s = 0;
    RingPlace w;
    const int warpgroup = warpgroup_of_thread();
#pragma unroll 1
    for (Slices at(args); at.next();) {
        if (at.first()) {
            storing.enter(args, at.item());
            if constexpr (kOwnWeights) own.enter(args, at.item(), pipe); // which may use the sums' registers
            clear(acc);
        }
        if (kBusyConsumers < kConsumers && warpgroup >= kBusyConsumers) continue; // it has no voxels
        if (at.slice >= 0 && at.slice < args.depth)
            multiply_slices<0>(acc, pipe, at.item(), 1, RunningStages{s}, w, [] {});
        finish_slice<0>(acc, args, output, at.item(), pipe, storing, at.slice);
    }
    if constexpr (kStore == kStoreStaged) ptx::copy_bulk_out_wait<0>();
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    stream_fwd(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ StreamArgs args,
               const __grid_constant__ Output output) {
    run_roles(map, args, [&](const Pipeline& pipe) { consume(args, output, pipe); }, [](const Pipeline&) {});
}
