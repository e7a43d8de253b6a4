#pragma once

// What a CTA owns, and the order in which its producers and consumers pass the slices of both tensors.
#include "sweep/constants.cuh"

namespace {

/// The work of a CTA: tiles of channels of a group, a block of taps, and the slices of a split. Channels and taps are
/// named by the first one.
struct Item {
    int group, fixed_first, moved_first;
    int tap_d, tap_h, tap_w;
    int64_t split, first_slice;
    int slices;

    __device__ __forceinline__ explicit Item(const SweepArguments& args) {
        CtaNumber number = {blockIdx.x};
        moved_first = number.next(kMovedTiles) * kTileMovedChannels;
        fixed_first = number.next(kFixedTiles) * kTileFixedChannels;
        next_taps(number, tap_d, tap_h, tap_w);
        group = number.next(kGroups);
        split = number.rest;
        first_slice = args.slices * split / args.splits;
        slices = static_cast<int>(args.slices * (split + 1) / args.splits - first_slice);
    }
};

/// The slices of the fixed tensor that a split has, one after another and tile after tile. A slice meets kDepth.met()
/// slices of the moved tensor. At the first slice of a tile all of these are loaded, later only the fresh ones: those
/// that the slice before did not meet. With three taps along D and two stages, four slots:
///
///     slice of the fixed tensor   meets            loaded for it   into slots
///                0                m0 m1 m2         m0 m1 m2        0 1 2
///                1                   m1 m2 m3      m3              3
///                2                      m2 m3 m4   m4              0
struct Walk {
    int passed = 0; // slices before this one: their stages were used, in turn
    int first = 0;  // the first slice of the moved tensor that this one meets, counted in those that were loaded
    int depth, d;   // slices of a tile; the index of this one along D

    __device__ __forceinline__ Walk(const SweepArguments& args, const Item& item)
        : depth(static_cast<int>(args.fixed_extents.d)), d(static_cast<int>(item.first_slice % depth)) {}

    __device__ __forceinline__ bool begins_tile() const { return passed == 0 || d == 0; }
    __device__ __forceinline__ int stage() const { return passed % kStages; }
    __device__ __forceinline__ int parity() const { return passed / kStages & 1; }
    /// Goes to the next slice, and returns by how many slices of the moved tensor `first` moves on.
    __device__ __forceinline__ int advance() {
        ++passed;
        if (++d == depth) d = 0;
        const int by = d == 0 ? kDepth.met() : kDepth.fresh();
        first += by;
        return by;
    }
};

/// The tile that a walk has come to: an image, and a row and a column of tiles. It is counted on, because a division of
/// 64 bits takes a hundred instructions.
struct TilePlace {
    int64_t image;
    int h, w;

    __device__ __forceinline__ TilePlace(const SweepArguments& args, const Item& item) {
        int64_t tile = item.first_slice / args.fixed_extents.d;
        w = static_cast<int>(tile % args.tiles_w);
        tile /= args.tiles_w;
        h = static_cast<int>(tile % args.tiles_h);
        image = tile / args.tiles_h;
    }
    __device__ __forceinline__ void advance(const SweepArguments& args) {
        if (++w < args.tiles_w) return;
        w = 0;
        if (++h < args.tiles_h) return;
        h = 0;
        ++image;
    }
};

} // namespace
