#pragma once

// The order in which every role passes the stages of a CTA. All of them walk by themselves and must come to the same
// order. Slices of the input are numbered among those that are read: for each position along D, one of each input plane
// of D.
#include "schedule/items.cuh"

namespace {

/// An output slice of the gathered form, which has the rows of one phase along H. `index` counts them: for each q along
/// D the phases along D, and for each of these the phases along H, whose rows share sectors. Of two phases along H the
/// first has more taps: every other pair has them in the other order, so that no warpgroup always has the longer ones.
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

/// The index along D, in the input, of a slice that is read.
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

/// The stages in the order of input slices: items, their input slices, the chunks of channels of each slice.
struct InputSliceWalk {
    const TensorCoreArguments& args;
    Items items;
    int end = 0;  // the input slice behind the item's last one
    int left = 0; // stages of the item from this one on

    __device__ __forceinline__ explicit InputSliceWalk(const TensorCoreArguments& of) : args(of), items(of) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ int slice() const { return end - (left + kChunks - 1) / kChunks; }
    __device__ __forceinline__ int chunk() const { return (kChunks - left % kChunks) % kChunks; }
    __device__ __forceinline__ int rotation() const { return slice() % kRotations; }
    /// Goes to the next stage, as Items::next does; passes over items that read no input slice.
    __device__ __forceinline__ bool next() {
        for (--left; left <= 0; left = (end - input_begin(item())) * kChunks) {
            if (!items.next()) return false;
            end = input_end(args, item());
        }
        return true;
    }
};

/// The stages in the order of output slices: items, their output slices, the input slices that each reads, and the
/// chunks of channels of each of these.
struct OutputSliceWalk {
    const TensorCoreArguments& args;
    Items items;
    OutputSlice out;
    int index = 0;              // of the output slice
    int tap;                    // along D, which says the input slice
    int chunk_at = kChunks - 1; // of channels

    __device__ __forceinline__ explicit OutputSliceWalk(const TensorCoreArguments& of)
        : args(of), items(of), out(0), tap(out.end_tap()) {}
    __device__ __forceinline__ const Item& item() const { return items.item; }
    __device__ __forceinline__ int slice() const { return out.in_slice(tap); }
    __device__ __forceinline__ int chunk() const { return chunk_at; }
    __device__ __forceinline__ int rotation() const { return table_entry(kDepthTap, tap); }
    /// Goes to the next stage, as Items::next does; passes over taps that read outside of the input.
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
