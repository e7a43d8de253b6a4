#pragma once

// Work items: what a CTA does, and in which order.
#include "schedule/geometry.cuh"

namespace {

/// An entry of a table, by comparisons instead of a load: tables are short, and a load would be waited for.
template <int Count>
__device__ __forceinline__ int table_entry(const int (&table)[Count], int index) {
    int found = table[0];
#pragma unroll
    for (int i = 1; i < Count; ++i) found = index == i ? table[i] : found;
    return found;
}

/// The row and the column of the input from which on the input plane `plane` of a stage has every kInStride-th one.
__device__ __forceinline__ int plane_row(int plane) {
    return table_entry(kInPlaneH, plane / kInPlanesW);
}
__device__ __forceinline__ int plane_column(int plane) {
    return table_entry(kInPlaneW, plane % kInPlanesW);
}

/// Returns the remainder of a division; `index` becomes the quotient.
__device__ __forceinline__ int divide(int& index, int divisor) {
    const int quotient = index / divisor, remainder = index - quotient * divisor;
    index = quotient;
    return remainder;
}

/// One work item: a tile of the plane, some output channels of a group, some images, all phases along H or one of them,
/// and all q along D or a range of them.
struct Item {
    int channel_tile, group, q_w, q_h, q_d, q_d_end, n, row_set;
    __device__ __forceinline__ int first_row() const { return kRowSets == 1 ? 0 : table_entry(kSetPhase, row_set); }
    __device__ __forceinline__ int first_pass() const { return kRowSets == 1 ? 0 : table_entry(kSetPass, row_set); }
    __device__ __forceinline__ int passes() const {
        return kRowSets == 1 ? kPasses : table_entry(kSetPass, row_set + 1) - table_entry(kSetPass, row_set);
    }
};

__device__ __forceinline__ void set_channels(Item& item, const TensorCoreArguments& args, int& index) {
    item.channel_tile = divide(index, args.grid.channel_tiles);
    item.group = index % kGroups;
    index /= kGroups;
}

/// The work item of a number. Items that follow one another share what they read: the input, or the weights where a CTA
/// packs them.
__device__ __forceinline__ Item item_at(const TensorCoreArguments& args, int index) {
    const Geometry geometry(args);
    Item item;
    if constexpr (!kOwnWeights) set_channels(item, args, index);
    item.q_w = divide(index, args.grid.tiles_w) * geometry.tile_w();
    item.q_h = divide(index, args.grid.tiles_h) * geometry.tile_h();
    if constexpr ((kRowSets > 1 && !kGathered) || kOwnWeights) {
        const int images = geometry.item_images();
        item.n = divide(index, (args.batch + images - 1) / images) * images;
        if constexpr (kOwnWeights) set_channels(item, args, index);
        item.row_set = index; // those with the most passes first
    } else {
        item.n = index * geometry.item_images();
        item.row_set = 0;
    }
    return item;
}

/// The work items of a CTA: every n-th one, as long as all CTAs get one, and then a share of the others' slices.
struct Items {
    const TensorCoreArguments& args;
    int at; // the next whole item; or, counted behind all of these, the next slice of the items that are shared out
    Item item{};

    __device__ __forceinline__ explicit Items(const TensorCoreArguments& of)
        : args(of), at(of.shares.whole_items > 0 ? static_cast<int>(blockIdx.x) : first_slice()) {}
    __device__ __forceinline__ int first_slice() const {
        return args.shares.whole_items + blockIdx.x * args.shares.share;
    }
    __device__ __forceinline__ int end() const {
        return min(first_slice() + args.shares.share, args.shares.whole_items + args.shares.rest);
    }

    /// Goes to the next item, at first to the first one; returns false if there is none. Each role calls this in one
    /// place, because it is inlined, and what is compiled twice takes twice the time to compile.
    __device__ __forceinline__ bool next() {
        int index = at, first = 0, count = args.grid.depth;
        if (at < args.shares.whole_items) {
            at += gridDim.x;
            if (at >= args.shares.whole_items) at = first_slice();
        } else {
            if (at >= end()) return false;
            index = at - args.shares.whole_items;
            first = divide(index, args.grid.depth);
            index += args.shares.whole_items;
            count = min(args.grid.depth - first, end() - at);
            at += count;
        }
        item = item_at(args, index);
        item.q_d = first;
        item.q_d_end = first + count;
        return true;
    }
};

} // namespace
