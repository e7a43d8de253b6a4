#pragma once

// What a CTA owns, and the order in which it passes slices.
#include "sweep/constants.cuh"

namespace {

/// Channels of a group, the first tap of a block, and the slices of a split.
struct Item {
    int group, fixed_first, moved_first;
    int tap_d, tap_h, tap_w;
    int64_t split, first_slice;
    int slices;

    __device__ __forceinline__ explicit Item(const SweepArguments& args) {
        int64_t rest = blockIdx.x;
        const auto next = [&rest](int count) {
            const int digit = static_cast<int>(rest % count);
            rest /= count;
            return digit;
        };
        moved_first = next(kMovedTiles) * kTileMovedChannels;
        fixed_first = next(kFixedTiles) * kTileFixedChannels;
        tap_w = next(kTapBlocksW) * kBlockTapsW;
        tap_h = next(kTapBlocksH) * kBlockTapsH;
        tap_d = next(kTapBlocksD) * kBlockTapsD;
        group = next(kGroups);
        split = rest;
        first_slice = args.slices * split / args.splits;
        slices = static_cast<int>(args.slices * (split + 1) / args.splits - first_slice);
    }
};

/// Goes through the slices of the fixed tensor that a split has, tile after tile. It also counts the slices of the
/// moved tensor that are brought for them: all that a slice meets where a tile begins, later the fresh ones alone.
struct Walk {
    int passed = 0; // slices
    int first = 0;  // the number of the first slice of the moved tensor that this one meets
    int depth, d;   // slices of a tile; the slice of this one

    __device__ __forceinline__ Walk(const SweepArguments& args, const Item& item)
        : depth(static_cast<int>(args.fixed_extents.d)), d(static_cast<int>(item.first_slice % depth)) {}

    __device__ __forceinline__ bool begins() const { return passed == 0 || d == 0; }
    __device__ __forceinline__ int stage() const { return passed % kStages; }
    __device__ __forceinline__ int parity() const { return passed / kStages & 1; }
    /// Returns by how many slices of the moved tensor the first one moves on.
    __device__ __forceinline__ int advance() {
        ++passed;
        if (++d == depth) d = 0;
        const int by = d == 0 ? kDepth.met() : kDepth.fresh();
        first += by;
        return by;
    }
};

/// Where a tile begins, counted on with the walk: an image and a row and column of tiles.
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
