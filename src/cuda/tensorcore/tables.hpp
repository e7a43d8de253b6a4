#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/index_map.hpp"
#include "cuda/kernels/shared/tensorcore.cuh"
#include "tconv3d/problem.hpp"

/// Which taps a tensor-core kernel multiplies, in which order, and into which accumulators. Phases, input planes and
/// shifts are those of the index map: output out_stride · q + phase reads the input at in_stride · (q + shift) + plane.
namespace tconv3d::cuda::tensorcore {

/// The input planes along one dimension that are read. A stage holds those of H and W side by side; those of D are
/// slices of their own.
struct InputPlanes {
    int64_t stride;             ///< from an element of a plane to its next
    std::vector<int64_t> first; ///< the first element of each, rising

    explicit InputPlanes(const Axis& axis);
    int64_t count() const { return static_cast<int64_t>(first.size()); }
    /// Elements of the input from the first of so many positions of plane 0 to the last of all planes.
    int64_t reach(int64_t positions) const { return (positions - 1) * stride + first.back() + 1; }
    /// Elements of all planes, of an input of that extent.
    int64_t elements(int64_t extent) const;
};

/// The accumulator slots of a D phase: the output slice q lives in slot q mod length.
struct Ring {
    int64_t length; ///< 0 for a phase without taps
    int64_t start;  ///< slots of the rings before it
    int64_t shift_max;
    int64_t shift_min;
};

/// A tap along D, and the input slice that it reads: at q + shift of an input plane.
struct DepthTap {
    int64_t phase;
    int64_t tap;
    int64_t shift;
    int64_t plane; ///< its place among those that are read
};

/// The taps along D. Kernels number the input slices that are read: slice `position * planes + place of the plane`.
struct DepthTables {
    int64_t planes;             ///< input planes that are read
    std::vector<Ring> rings;    ///< by D phase
    int64_t slots;              ///< 1 in the gathered form
    int64_t rotations;          ///< slices after which every ring is where it was; taps along D in the gathered form
    std::vector<DepthTap> taps; ///< by phase, and by the slice that they read

    DepthTables(const Axis& axis, Form form);

    /// The tap of a phase that reads an input plane at a shift; -1 when there is none.
    int64_t tap_at(int64_t phase, int64_t shift, int64_t plane) const;
    /// Slices of an input plane after which every ring is where it was.
    int64_t ring_rotations() const { return rotations / planes; }
};

/// A tap (h, w), and the phase whose accumulators it adds to.
struct PlaneTap {
    int64_t phase; ///< phase_h * stride_w + phase_w
    int64_t tap_h;
    int64_t tap_w;
};

/// Taps of one shift whose accumulators are neighbours: one MMA instruction of each k step multiplies them all.
struct Product {
    int64_t first; ///< accumulator
    int64_t count;
};

/// A shift of an input plane relative to an output's own position, and the taps that read there.
struct PlaneShift {
    int64_t plane; ///< of those that a stage holds
    int64_t shift_h;
    int64_t shift_w;
    std::vector<PlaneTap> taps; ///< in the order of their accumulators
    std::vector<Product> products;
};

/// The beginning of a tap group: products and taps before it, counted through all shifts.
struct TapGroup {
    int64_t first_product;
    int64_t first_tap;
};

/// Which phases along H a work item has.
enum class RowPhases {
    together, ///< All of them.
    apart,    ///< One: the item writes every stride-th row, and has room for more channels.
};

/// A pass over all plane shifts, moved along H. With RowPhases::together there is one, which moves nothing; with
/// RowPhases::apart there is one for each tap along H.
struct Pass {
    int64_t tap_h;
    int64_t plane; ///< the first of those that it reads
    int64_t shift_h;
};

/// The passes of the work items of one phase along H.
struct RowSet {
    int64_t phase;
    int64_t first_pass;
};

/// The taps along H and W.
struct PlaneTables {
    std::vector<PlaneShift> shifts;
    std::vector<Pass> passes;
    std::vector<RowSet> row_sets;     ///< those with the most passes first
    std::vector<int64_t> accumulator; ///< by phase (h, w) of a work item: which accumulators it has, -1 for none
    int64_t accumulators;
    int64_t row_phases; ///< phases along H of a work item

    PlaneTables(const Axis& h, const Axis& w, RowPhases rows, Form form);

    int64_t pass_count() const { return static_cast<int64_t>(passes.size()); }
    /// Passes of a work item, on average.
    double mean_passes() const { return static_cast<double>(passes.size()) / static_cast<double>(row_sets.size()); }
    /// Passes of a work item of the set with the most, which is the first.
    double most_passes() const {
        return static_cast<double>(row_sets.size() == 1 ? pass_count() : row_sets[1].first_pass);
    }
    /// Taps and products of one pass.
    int64_t taps() const;
    int64_t products() const;
    /// The most taps of a product.
    int64_t longest_product() const;
    /// The least shift along H.
    int64_t first_shift_h() const;
    /// Where each of that many tap groups begins, and the end of the last. There is one group at least, and there
    /// are as many as products at most.
    const std::vector<TapGroup>& tap_groups(int64_t groups) const { return groups_[static_cast<size_t>(groups - 1)]; }

private:
    std::vector<std::vector<TapGroup>> groups_; ///< for 1, 2, … groups
};

/// The tap tables of a problem along all dimensions, and the range of the shifts.
struct TapTables {
    Form form;
    std::array<InputPlanes, 3> inputs;
    DepthTables depth;
    PlaneTables plane;
    Extents shift_min;
    Extents shift_max;
    Extents q_count; ///< q counts from 0

    explicit TapTables(const Problem& problem, RowPhases rows = RowPhases::together, Form of = Form::streamed)
        : TapTables(IndexMap(problem), rows, of) {}
    TapTables(const IndexMap& map, RowPhases rows, Form of);

    bool gathered() const { return form == Form::gathered; }
    /// Input positions beside its own that the outputs of a position read along a dimension.
    int64_t halo(size_t dim) const { return shift_max[dim] - shift_min[dim]; }
    int64_t row_sets() const { return static_cast<int64_t>(plane.row_sets.size()); }
    /// Input planes that a stage holds.
    int64_t staged_planes() const { return inputs[1].count() * inputs[2].count(); }
};

} // namespace tconv3d::cuda::tensorcore
