#pragma once

// The order in which every role passes the stages of a CTA. Slices of the input are numbered among those that are read:
// for each position along D, one of each input plane.
#include "schedule/items.cuh"

namespace {

/// In the gathered form, what q along D counts is an output slice of some rows: for each q the phases along D, and for
/// each of these the phases along H, whose rows share sectors. Of two phases along H the first has more taps: every
/// other pair has them in the other order, so that no warpgroup always has the longer ones.
struct OutputSlice {
    int q, row_set, phase;
    __device__ __forceinline__ explicit OutputSlice(int index) {
        row_set = divide(index, kRowSets);
        if constexpr (kRowSets == 2) row_set ^= index & 1;
        phase = divide(index, kStrideD);
        q = index;
    }
    __device__ __forceinline__ int d() const { return q * kStrideD + phase; }
    __device__ __forceinline__ int first_tap() const { return table_entry(kPhaseDepthTap, phase); }
    __device__ __forceinline__ int end_tap() const { return table_entry(kPhaseDepthTap, phase + 1); }
    __device__ __forceinline__ int in_slice(int tap) const { return q * kInPlanesD + table_entry(kDepthTapSlice, tap); }
    __device__ __forceinline__ bool has(const TensorCoreArguments& args, int tap) const {
        return tap < end_tap() && in_slice(tap) >= 0 && in_slice(tap) < args.in_slices && d() < args.out_extents.d;
    }
};

/// Where a slice that is read lies in the input.
__device__ __forceinline__ int depth_of(int slice) {
    if constexpr (kInPlanesD == 1) return slice * kInStrideD + kInPlaneD[0];
    return slice / kInPlanesD * kInStrideD + table_entry(kInPlaneD, slice % kInPlanesD);
}

/// The input slices that an item reads: the first one, and that behind the last.
__device__ __forceinline__ int input_begin(const Item& item) {
    return max(((kGathered ? OutputSlice(item.q_d).q : item.q_d) + kShiftMinD) * kInPlanesD, 0);
}
__device__ __forceinline__ int input_end(const TensorCoreArguments& args, const Item& item) {
    const int end = kGathered ? OutputSlice(item.q_d_end - 1).q + 1 : item.q_d_end;
    return min((end + kShiftMaxD) * kInPlanesD, args.in_slices);
}

/// Stages by input slices: items, their input slices, the chunks of channels of each.
struct InputSliceWalk {
    const TensorCoreArguments& args;
    Items items;
    int end = 0, left = 0; // input slice behind the item's last one; stages of the item from here on

    __device__ __forceinline__ explicit InputSliceWalk(const TensorCoreArguments& of) : args(of), items(of) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ int slice() const { return end - (left + kChunks - 1) / kChunks; }
    __device__ __forceinline__ int chunk() const { return (kChunks - left % kChunks) % kChunks; }
    __device__ __forceinline__ int rotation() const { return slice() % kRotations; }
    /// Goes to the next stage, as Items does; passes over items that meet no input slice.
    __device__ __forceinline__ bool next() {
        for (--left; left <= 0; left = (end - input_begin(item())) * kChunks) {
            if (!items.next()) return false;
            end = input_end(args, item());
        }
        return true;
    }
};

/// Stages by output slices: items, their output slices, the input slices and chunks of channels of each.
struct OutputSliceWalk {
    const TensorCoreArguments& args;
    Items items;
    OutputSlice out;
    int index = 0, tap, chunk_at = kChunks - 1; // of the output slice, along D, of channels

    __device__ __forceinline__ explicit OutputSliceWalk(const TensorCoreArguments& of)
        : args(of), items(of), out(0), tap(out.end_tap()) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ int slice() const { return out.in_slice(tap); }
    __device__ __forceinline__ int chunk() const { return chunk_at; }
    __device__ __forceinline__ int rotation() const { return table_entry(kDepthTap, tap); }
    /// Goes to the next stage, as Items does; passes over slices outside of the input.
    __device__ __forceinline__ bool next() {
        if (++chunk_at < kChunks) return true;
        chunk_at = 0;
        do {
            if (++tap < out.end_tap()) continue;
            if (++index >= item().q_d_end) {
                if (!items.next()) return false;
                index = item().q_d;
            }
            out = OutputSlice(index);
            items.item.row_set = out.row_set;
            tap = out.first_tap();
        } while (!out.has(args, tap));
        return true;
    }
};

using InputWalk = Select<kGathered && !kRetainsSlices, OutputSliceWalk, InputSliceWalk>;
using WeightWalk = Select<kGathered, OutputSliceWalk, InputSliceWalk>;

} // namespace
