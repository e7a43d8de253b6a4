// fwd and bwd_data in the gathered form (docs/design.md). A CTA owns a tile of positions q of a plane and 64 output
// channels, and makes one output slice after another: the products of its input slices, then bias, epilogue and store.
// Channels are the rows of a product and positions its columns, up to 256 of them: few bytes of shared memory for a
// product.
//
//     weights, in tap groups ── TMA ──────────────────────► stages ┐   consumer 0: even output slices
//     input slices ── TMA ──► raw stages ── rearrange ────► stages ┴►  consumer 1: odd output slices   ──► output
//
// The consumers alternate (PingPong): while one stores an output slice, the other one multiplies the next. With
// Store::bulk_rows a storer warpgroup has the output sent. schedule/roles.cuh says which warps do what. The constants
// are those of cuda/source/constants.cpp; the products are wgmmas<Group>(), which the host writes.
#include "multiply/stages.cuh"
#include "schedule/roles.cuh"
#include "store/gathered_bulk_rows.cuh"
#include "store/gathered_warp_rows.cuh"

namespace {

/// The taps along D of an output slice that read an input slice which exists. They are neighbours.
struct MetTaps {
    int first, count;
    __device__ __forceinline__ MetTaps(const TensorCoreArguments& args, const OutputSlice& out) : first(0), count(0) {
#pragma unroll
        for (int tap = kKernelD - 1; tap >= 0; --tap) {
            const bool met = tap >= out.first_tap() && out.has(args, tap);
            first = met ? tap : first;
            count += met;
        }
    }
};

/// The stages of an item where input slices are retained: one for each slice and chunk of channels, numbered on and on.
/// Each warpgroup counts which of them it has released.
struct RetainedSlices {
    int begin = 0;          // the item's first input slice
    int first = 0, end = 0; // stages of the item, and that behind them
    int released = 0;       // stages that this warpgroup does not need any more

    __device__ __forceinline__ void enter(const TensorCoreArguments& args, const Item& item) {
        begin = input_begin(item);
        first = end;
        end = first + max(input_end(args, item) - begin, 0) * kChunks;
    }
    __device__ __forceinline__ int stage(int slice) const { return first + (slice - begin) * kChunks; }

    __device__ __forceinline__ int first_needed(int q) const {
        return min(max(stage((q + kShiftMinD) * kInPlanesD), first), end);
    }

    /// Releases what is read neither by output slices of this q nor of a later one.
    __device__ __forceinline__ void release_before(const Pipeline& pipe, int q) {
        release_until(pipe, first_needed(q));
    }
    /// Releases what no output slice behind this one reads.
    __device__ __forceinline__ void release_after(const Pipeline& pipe, const Item& item, int index) {
        release_until(pipe, index + 1 < item.q_d_end ? first_needed(OutputSlice(index + 1).q) : end);
    }
    /// Releases all stages before `stage`. Each is waited for, so that no warpgroup arrives twice in one phase of a
    /// barrier.
    __device__ __forceinline__ void release_until(const Pipeline& pipe, int stage) {
#pragma unroll 1
        for (; released < stage; ++released) {
            pipe.in.wait_full(released);
            release(pipe.in.empty(released));
        }
    }
};

/// The stages of the input slices that an output slice reads, where they are retained.
struct RetainedStages {
    const RetainedSlices& retained;
    const OutputSlice& out;
    int tap, chunk;
    __device__ __forceinline__ int at() const { return retained.stage(out.in_slice(tap)) + chunk; }
    __device__ __forceinline__ void next() {
        if (++chunk < kChunks) return;
        chunk = 0;
        ++tap;
    }
    __device__ __forceinline__ void end(const Pipeline&) const {}
};

template <bool kRetains>
__device__ __forceinline__ auto stages_of(const RetainedSlices& retained, const OutputSlice& out, const MetTaps& taps,
                                          int& s) {
    if constexpr (kRetains) {
        return RetainedStages{retained, out, taps.first, 0};
    } else {
        return ConsecutiveStages{s};
    }
}

/// Stores an output slice, number `count` of the CTA. It is a template, so that only the store that is used is
/// compiled.
template <typename Acc>
__device__ __forceinline__ void store_slice(const Acc& acc, const TensorCoreArguments& args, const Output& output,
                                            const Item& item, const Pipeline& pipe, const VectorOffsets& offsets,
                                            const StoredSlice& slice, int count) {
    if constexpr (kStore == Store::bulk_rows) {
        stage_bulk_rows(acc, args, output, item, pipe, slice, count / kRowSets);
    } else if constexpr (kStore == Store::warp_rows || kStore == Store::seamed_rows) {
        store_warp_rows(acc, args, output, item, pipe, slice);
    } else {
        store_vectors(acc, output, offsets.of_rows(item), slice);
    }
}

__device__ __forceinline__ void consume(const TensorCoreArguments& args, const Output& output, const Pipeline& pipe) {
    constexpr bool kStoresVectors =
        kStore == Store::voxels || kStore == Store::pairs || kStore == Store::quads || kStore == Store::channels;
    Accumulators acc;
    declare_accumulators(acc);
    RetainedSlices retained;
    PipelineState w;
    int s = 0, slices = 0; // stages of input and output slices so far
    const int warpgroup = uniform_warpgroup();
#pragma unroll 1
    for (Items items(args); items.next();) {
        Item& item = items.item;
        VectorOffsets offsets(pipe);
        if constexpr (kStoresVectors) offsets.enter(args, item);
        if constexpr (kRetainsSlices) retained.enter(args, item);
#pragma unroll 1
        for (int index = item.q_d; index < item.q_d_end; ++index, ++slices) {
            const OutputSlice out(index);
            const MetTaps taps(args, out);
            item.row_set = out.row_set;
            if (slices % kConsumers != warpgroup) {
                s += taps.count * kChunks;
                pipe.weights.skip(w, taps.count * kChunks * item.passes() * kTapGroups);
                continue;
            }
            const StoredSlice slice = stored_slice(args, item, out.d(), out.d() < args.out_extents.d);
            clear_accumulators(acc);
            if (kStore == Store::seamed_rows && index % kRowSets == 0) clear_seams(args, output, item, slice);
            pipe.ping_pong.wait(slices);
            if constexpr (kRetainsSlices) retained.release_before(pipe, out.q);
            if (taps.count > 0) {
                multiply_slices<0>(acc, pipe, item, taps.count, stages_of<kRetainsSlices>(retained, out, taps, s), w,
                                   [&] { pipe.ping_pong.pass(slices); });
            } else {
                pipe.ping_pong.pass(slices);
            }
            read_accumulators(acc);
            if constexpr (kRetainsSlices) retained.release_after(pipe, item, index);
            store_slice(acc, args, output, item, pipe, offsets, slice, slices);
        }
    }
    if constexpr (kRetainsSlices) retained.release_until(pipe, retained.end);
}

} // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    gathered(const __grid_constant__ ptx::TensorMap map, const __grid_constant__ TensorCoreArguments args,
             const __grid_constant__ Output output) {
    run_roles(
        map, args, [&](const Pipeline& pipe) { consume(args, output, pipe); },
        [&](const Pipeline& pipe) { send_bulk_rows(args, output, pipe, threadIdx.x / 32 % 4); });
}
