#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "tconv3d/problem.hpp"

/// Which taps meet which voxels: the one description that every backend takes its tables from (docs/math.md).
namespace tconv3d {

/// A tap along one dimension: the outputs q of its phase read position `q + shift` of an input plane.
struct AxisTap {
    int64_t tap;
    int64_t plane;
    int64_t shift;
};

/// The outputs `out_stride * q + phase` with 0 <= q < count, which sum over the same taps.
struct AxisPhase {
    int64_t count;             ///< 0 when the output is too short to have one
    std::vector<AxisTap> taps; ///< in rising order of tap; may be empty
};

/// One dimension as unit-stride correlations from input planes to output phases. q counts from 0 at the first output;
/// plane b holds the inputs `in_stride * position + b`. The input is src in fwd and dst in the other directions.
struct Axis {
    int64_t in_extent;
    int64_t out_extent;
    int64_t in_stride;
    int64_t out_stride;
    std::vector<AxisPhase> phases; ///< out_stride of them; each tap is in one
    std::vector<int64_t> planes;   ///< those that are read for some output, rising
    int64_t shift_min;             ///< over the taps of the phases that have outputs; both 0 when there is no such tap
    int64_t shift_max;

    /// The q of all outputs are below it.
    int64_t q_count() const { return phases.front().count; }
    int64_t spread() const { return shift_max - shift_min; }
    /// The least and the greatest shift of all taps, also of those whose phase has no outputs.
    std::pair<int64_t, int64_t> all_shifts() const;
    /// Elements of a plane.
    int64_t plane_extent(int64_t plane) const;
    /// The place of a plane among those that are read.
    int64_t plane_index(int64_t plane) const;
    int64_t output(int64_t phase, int64_t q) const { return out_stride * q + phase; }
    int64_t input(int64_t plane, int64_t position) const { return in_stride * position + plane; }
};

/// Whether taps lie so near to one another, and to the first output, that no shift or difference of shifts reaches the
/// limit, counted in voxels of the input. It needs no map: whoever counts in fewer than 64 bits asks before making one.
bool has_shifts_below(const Problem& problem, int64_t limit);

/// fwd has one input plane and stride³ output phases, bwd_data the reverse; bwd_weight reads grad_dst as bwd_data does.
/// The phases are listed one by one: whoever builds a map of fwd limits the stride first.
struct IndexMap {
    std::array<Axis, 3> axes; ///< d, h, w

    explicit IndexMap(const Problem& problem);
    int64_t planes() const;
    int64_t phases() const;
};

} // namespace tconv3d
