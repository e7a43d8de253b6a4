// fwd, gathered along D (docs/design.md). A CTA owns a tile of positions q of a plane and 64 output channels, and makes
// one output slice after another: the products of its source slices, then bias, epilogue and store. Channels are the
// rows of a product and positions its columns, up to 256 of them: few bytes of shared memory for a product.
//
// The warpgroups take turns: while one stores a slice, the other one multiplies the next.
// Constants: see stream_shape.cuh, gather_store.cuh and output.cuh; and wgmmas<Group>().
#include "store/gathered_pieces.cuh"
#include "store/gathered_rows.cuh"
#include "schedule/roles.cuh"

namespace {

/// The taps along D of a step that meet a slice of src: some in a row.
struct StepTaps {
    int first, count;
    __device__ __forceinline__ StepTaps(const StreamArgs& args, const Step& step) : first(0), count(0) {
#pragma unroll
        for (int tap = kKernelD - 1; tap >= 0; --tap) {
            const bool met = tap >= step.first_tap() && step.has(args, tap);
            first = met ? tap : first;
            count += met;
        }
    }
};

/// Where slices stay: the stages of an item, one for each of its slices and blocks of channels, as a warpgroup passes
/// them.
struct KeptSlices {
    int begin = 0;          // slice of src
    int first = 0, end = 0; // stages of the item, and that behind them
    int given = 0;          // stages that this warpgroup does not need any more

    __device__ __forceinline__ void enter(const StreamArgs& args, const Item& item) {
        begin = source_begin(item);
        first = end;
        end = first + max(source_end(args, item) - begin, 0) * kChunks;
    }
    __device__ __forceinline__ int stage(int slice) const { return first + (slice - begin) * kChunks; }

    __device__ __forceinline__ int first_needed(int q) const { return min(max(stage(q + kDeltaMinD), first), end); }

    /// Gives back what no step reads that has this q or a later one.
    __device__ __forceinline__ void give_back_before(const Pipeline& pipe, int q) {
        give_back_until(pipe, first_needed(q));
    }
    /// Gives back what only this step and those before read.
    __device__ __forceinline__ void give_back_after(const Pipeline& pipe, const Item& item, int index) {
        give_back_until(pipe, index + 1 < item.q_d_end ? first_needed(Step(index + 1).q) : end);
    }
    /// Each must have been filled, so that no warpgroup arrives twice for one.
    __device__ __forceinline__ void give_back_until(const Pipeline& pipe, int stage) {
#pragma unroll 1
        for (; given < stage; ++given) {
            pipe.src.wait_filled(given);
            give_back(pipe.src.freed(given));
        }
    }
};

/// The stages of a step's slices among these.
struct KeptStages {
    const KeptSlices& kept;
    const Step& step;
    int tap, chunk;
    __device__ __forceinline__ int at() const { return kept.stage(step.slice(tap)) + chunk; }
    __device__ __forceinline__ void next() {
        if (++chunk < kChunks) return;
        chunk = 0;
        ++tap;
    }
    __device__ __forceinline__ void end(const Pipeline&) const {}
};

template <bool Kept>
__device__ __forceinline__ auto step_stages(const KeptSlices& kept, const Step& step, const StepTaps& taps, int& s) {
    if constexpr (Kept) {
        return KeptStages{kept, step, taps.first, 0};
    } else {
        return RunningStages{s};
    }
}

/// A template, so that only the store that is used is compiled.
template <typename Sums>
__device__ __forceinline__ void store_step(const Sums& acc, const StreamArgs& args, const Output& output,
                                           const Item& item, const Pipeline& pipe, const VectorPlaces& places,
                                           const Slice& slice, int step) {
    if constexpr (kPieces) {
        stage_pieces(acc, args, output, item, pipe, slice, step / kRowSets);
    } else if constexpr (kStore == kStoreStaged) {
        store_gathered_rows(acc, args, output, item, pipe, slice);
    } else {
        store_gathered(acc, output, places.of_rows(item), slice);
    }
}

__device__ __forceinline__ void consume(const StreamArgs& args, const Output& output, const Pipeline& pipe) {
    Accumulators acc;
    name_sums(acc);
    KeptSlices kept;
    RingPlace w;
    int s = 0, steps = 0; // stages of src and steps so far
    const int warpgroup = warpgroup_of_thread();
#pragma unroll 1
    for (Items items(args); items.next();) {
        Item& item = items.item;
        VectorPlaces places(pipe);
        if constexpr (kStore != kStoreStaged) places.enter(args, item);
        if constexpr (kKeeps) kept.enter(args, item);
#pragma unroll 1
        for (int index = item.q_d; index < item.q_d_end; ++index, ++steps) {
            const Step step(index);
            const StepTaps taps(args, step);
            item.row_set = step.row_set;
            if (steps % kConsumers != warpgroup) {
                s += taps.count * kChunks;
                pipe.weights.skip(w, taps.count * kChunks * item.passes() * kTapGroups);
                continue;
            }
            const Slice slice = slice_of(args, item, step.d(), step.d() < args.dst_d);
            clear_sums(acc);
            if (kSeams && index % kRowSets == 0) clear_seams(args, output, item, slice);
            pipe.turns.wait(steps);
            if constexpr (kKeeps) kept.give_back_before(pipe, step.q);
            if (taps.count > 0) {
                multiply_slices<0>(acc, pipe, item, taps.count, step_stages<kKeeps>(kept, step, taps, s), w,
                                   [&] { pipe.turns.give(steps); });
            } else {
                pipe.turns.give(steps);
            }
            read_sums(acc);
            if constexpr (kKeeps) kept.give_back_after(pipe, item, index);
            store_step(acc, args, output, item, pipe, places, slice, steps);
        }
    }
    if constexpr (kKeeps) kept.give_back_until(pipe, kept.end);
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    stream_fwd(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ StreamArgs args,
               const __grid_constant__ Output output) {
    run_roles(
        map, args, [&](const Pipeline& pipe) { consume(args, output, pipe); },
        [&](const Pipeline& pipe) { send_pieces(args, output, pipe, threadIdx.x / 32 % 4); });
}
