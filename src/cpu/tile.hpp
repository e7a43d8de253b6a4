#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "../core/cuts.hpp"
#include "../core/index_map.hpp"

namespace tconv3d::cpu {

/// What the choice of a tile has to respect.
struct TileLimits {
    int64_t slab_elements; ///< zero-padded input of one tile, all channels of a block
    int64_t sum_elements;  ///< sums of one tile, all phases and output channels of a task
    int64_t channel_block; ///< output channels that the register block takes
    int64_t lanes_wanted;  ///< lanes that fill the register block a few times
    int64_t tasks_wanted;  ///< enough work items for many cores; a constant, so that results never depend on threads
};

/// A slab holds the input of `d` slices × `h` rows of outputs q as [channel][plane][slice][row][column], zero-padded
/// and with pitches such that the whole tile is one run of lanes and a tap is one constant offset (docs/math.md).
struct Tile {
    int64_t d;            ///< slices of q
    int64_t h;            ///< rows of q in a slice; all of them when d > 1
    int64_t in_channels;  ///< input channels of a block
    int64_t out_channels; ///< output channels of a task
    int64_t row_phases;   ///< pairs of a D and an H phase of a task
    int64_t row_pitch;
    int64_t slice_pitch; ///< in rows
    int64_t rows;        ///< rows stored of a slice: h + spread
    int64_t slices;      ///< slices stored: d + spread
    int64_t columns;     ///< columns stored of a row: q_count + spread
    int64_t plane_pitch;
    int64_t channel_pitch;
    int64_t lanes; ///< length of the run: the last output's lane + 1

    std::string str() const;
};

/// Counts of the problem that the tile is cut from.
struct TileCounts {
    int64_t in_channels;  ///< of a group
    int64_t out_channels; ///< of a group
    int64_t independent;  ///< batch × groups: work items there are anyway
};

Tile choose_tile(const IndexMap& map, const TileCounts& counts, const TileLimits& limits);

/// A tap of a 3D phase, as the kernels use it.
struct SlabTap {
    int64_t index;                  ///< (kd * kH + kh) * kW + kw
    int64_t offset;                 ///< in lanes from the output's own position
    std::array<int64_t, 2> q_begin; ///< the q (d, h) whose input exists for this tap
    std::array<int64_t, 2> q_end;
};

/// A phase in 3D with its taps.
struct SlabPhase {
    std::array<const AxisPhase*, 3> axes;
    std::array<int64_t, 3> r;
    int64_t first_tap; ///< taps of the phases before this one
    std::vector<SlabTap> taps;
};

/// In the order rd, rh, rw; with every tap in exactly one phase.
std::vector<SlabPhase> slab_phases(const IndexMap& map, const Tile& tile);

} // namespace tconv3d::cpu
