// fwd, gathered along D (docs/design.md). A CTA owns a tile of positions q of a plane and 64 output channels, and makes
// one output slice after another: the products of its source slices, then bias, epilogue and store. Channels are the
// rows of a product and positions its columns, up to 256 of them: few bytes of shared memory for a product.
//
// The warpgroups take turns: while one stores a slice, the other one multiplies the next.
// Constants: see stream_shape.cuh, gather_store.cuh and output.cuh; and wgmmas<Group>().
#include "gather_rows.cuh"
#include "stream_roles.cuh"

namespace {

/// The taps along D of a step that meet a slice of src: some in a row.
struct StepTaps {
    int first, count;
    __device__ __forceinline__ StepTaps(const StreamArgs& args, const Step& step) : first(step.first_tap()), count(0) {
        while (first < step.end_tap() && !step.has(args, first)) ++first;
        while (step.has(args, first + count)) ++count;
    }
};

/// The stages of src as a warpgroup passes them: each step has its own; or they are kept, and an item has its own, one
/// for each slice and block of channels.
struct SourceStages {
    int before = 0; // stages of the steps, or the items, before
    int given = 0;  // where they are kept: stages that this warpgroup does not need any more
    SourceSlices slices = {0, 0};

    /// The first stage of a step's slice.
    __device__ __forceinline__ int of_slice(const Step& step, const StepTaps& taps, int index) const {
        return before + (kKeeps ? step.slice(taps.first + index) - slices.begin : index) * kChunks;
    }
    __device__ __forceinline__ int item_end() const { return before + slices.count() * kChunks; }

    /// Gives back what no step reads that has this q or a later one.
    __device__ __forceinline__ void give_back_before(const Pipeline& pipe, int q) {
        give_back_until(pipe, before + min(max(q + kDeltaMinD - slices.begin, 0), slices.count()) * kChunks);
    }
    /// Gives back what only this step and those before read.
    __device__ __forceinline__ void give_back_after(const Pipeline& pipe, const Item& item, int index) {
        if (index + 1 < item.q_d_end) {
            give_back_before(pipe, Step(index + 1).q);
        } else {
            give_back_until(pipe, item_end());
        }
    }
    /// Each must have been filled, so that no warpgroup arrives twice for one.
    __device__ __forceinline__ void give_back_until(const Pipeline& pipe, int end) {
        for (; given < end; ++given) {
            pipe.src.wait_filled(given);
            give_back(pipe.src.freed(given));
        }
    }
};

__device__ __forceinline__ void multiply_step(Accumulators& acc, const Pipeline& pipe, const Item& item,
                                              const Step& step, const StepTaps& taps, const SourceStages& src, int& w,
                                              int turn) {
    if (taps.count == 0) return pipe.turns.give(turn);
    multiply_stages<0>(
        acc, pipe, item, taps.count * kChunks,
        [&](int i) { return src.of_slice(step, taps, i / kChunks) + i % kChunks; }, w, [&] { pipe.turns.give(turn); });
}

__device__ __forceinline__ void consume(const StreamArgs& args, const Output& output, const Pipeline& pipe) {
    Accumulators acc;
    int w = 0, steps = 0; // stages of weights and steps so far
    // The same in all lanes, and the assembler knows: it would serialise products in a branch that lanes may leave.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    SourceStages src;
#pragma unroll 1
    for (Items items(args); !items.done(); items.next()) {
        Item& item = items.item;
        VectorPlaces places(pipe);
        if constexpr (kStore != kStoreStaged) places.enter(args, item);
        if constexpr (kKeeps) src.slices = source_slices(args, item);
#pragma unroll 1
        for (int index = item.q_d; index < item.q_d_end; ++index, ++steps) {
            const Step step(index);
            const StepTaps taps(args, step);
            item.row_set = step.row_set;
            if (steps % kConsumers == warpgroup) {
                clear(acc);
                pipe.turns.wait(steps);
                if constexpr (kKeeps) src.give_back_before(pipe, step.q);
                multiply_step(acc, pipe, item, step, taps, src, w, steps);
                if constexpr (kKeeps) src.give_back_after(pipe, item, index);
                const Slice slice = slice_of(args, item, step.d(), step.d() < args.dst_d);
                if constexpr (kStore == kStoreStaged) {
                    store_gathered_rows(acc, args, output, item, pipe, slice);
                } else {
                    store_gathered(acc, output, places.of_rows(item), slice);
                }
            } else {
                w += taps.count * kChunks * (item.last_pass() - item.first_pass() + 1) * kTapGroups;
            }
            if constexpr (!kKeeps) src.before += taps.count * kChunks;
        }
        if constexpr (kKeeps) src.before = src.item_end();
    }
    if constexpr (kKeeps) src.give_back_until(pipe, src.before);
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    stream_fwd(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ StreamArgs args,
               const __grid_constant__ Output output) {
    run_roles(map, args, [&](const Pipeline& pipe) { consume(args, output, pipe); });
}
