#include "index_map.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cuts.hpp"

namespace tconv3d {

namespace {

/// How many of first, first + stride, first + 2 · stride, … lie below the extent.
int64_t strided_count(int64_t extent, int64_t first, int64_t stride) {
    return first < extent ? (extent - 1 - first) / stride + 1 : 0;
}

/// Where a tap takes src index 0: to dst index `stride * strides + remainder`, with 0 <= remainder < stride.
struct Reach {
    int64_t strides;
    int64_t remainder;
};

Reach reach_of(const Problem& problem, size_t dim, int64_t tap) {
    const int64_t dst_index = tap * problem.dilation[dim] - problem.padding[dim];
    const int64_t strides = floor_div(dst_index, problem.stride[dim]);
    return {strides, dst_index - strides * problem.stride[dim]};
}

/// docs/math.md (6): the remainder is the tap's phase.
Axis fwd_axis(const Problem& problem, size_t dim, int64_t dst) {
    const int64_t stride = problem.stride[dim];
    Axis axis{problem.src[dim], dst, 1, stride, {}, {}, 0, 0};
    axis.phases.reserve(static_cast<size_t>(stride));
    for (int64_t phase = 0; phase < stride; ++phase) axis.phases.push_back({strided_count(dst, phase, stride), {}});
    for (int64_t tap = 0; tap < problem.kernel[dim]; ++tap) {
        const Reach reach = reach_of(problem, dim, tap);
        axis.phases[static_cast<size_t>(reach.remainder)].taps.push_back({tap, 0, -reach.strides});
    }
    return axis;
}

/// docs/math.md (10): the remainder is the tap's plane.
Axis bwd_axis(const Problem& problem, size_t dim, int64_t dst) {
    Axis axis{dst, problem.src[dim], problem.stride[dim], 1, {{problem.src[dim], {}}}, {}, 0, 0};
    for (int64_t tap = 0; tap < problem.kernel[dim]; ++tap) {
        const Reach reach = reach_of(problem, dim, tap);
        axis.phases[0].taps.push_back({tap, reach.remainder, reach.strides});
    }
    return axis;
}

void summarise(Axis& axis) {
    bool any = false;
    for (const AxisPhase& phase : axis.phases) {
        if (phase.count == 0) continue;
        for (const AxisTap& tap : phase.taps) {
            axis.shift_min = any ? std::min(axis.shift_min, tap.shift) : tap.shift;
            axis.shift_max = any ? std::max(axis.shift_max, tap.shift) : tap.shift;
            any = true;
            axis.planes.push_back(tap.plane);
        }
    }
    std::sort(axis.planes.begin(), axis.planes.end());
    axis.planes.erase(std::unique(axis.planes.begin(), axis.planes.end()), axis.planes.end());
}

} // namespace

bool has_shifts_below(const Problem& problem, int64_t limit) {
    for (size_t i = 0; i < 3; ++i) {
        const Checked span = Checked(problem.dilation[i]) * (Checked(problem.kernel[i]) - 1) + problem.padding[i];
        const int64_t stride = problem.direction == Direction::fwd ? problem.stride[i] : 1;
        if (!span.fits() || span.value() / stride >= limit - 1) return false;
    }
    return true;
}

std::pair<int64_t, int64_t> Axis::all_shifts() const {
    std::pair<int64_t, int64_t> range(INT64_MAX, INT64_MIN);
    for (const AxisPhase& phase : phases)
        for (const AxisTap& tap : phase.taps)
            range = {std::min(range.first, tap.shift), std::max(range.second, tap.shift)};
    return range;
}

int64_t Axis::plane_extent(int64_t plane) const {
    return strided_count(in_extent, plane, in_stride);
}

int64_t Axis::plane_index(int64_t plane) const {
    return std::lower_bound(planes.begin(), planes.end(), plane) - planes.begin();
}

IndexMap::IndexMap(const Problem& problem) {
    const Extents dst = problem.dst();
    for (size_t i = 0; i < 3; ++i) {
        axes[i] = problem.direction == Direction::fwd ? fwd_axis(problem, i, dst[i]) : bwd_axis(problem, i, dst[i]);
        summarise(axes[i]);
    }
}

int64_t IndexMap::planes() const {
    int64_t count = 1;
    for (const Axis& axis : axes) count *= static_cast<int64_t>(axis.planes.size());
    return count;
}

int64_t IndexMap::phases() const {
    int64_t count = 1;
    for (const Axis& axis : axes) count *= static_cast<int64_t>(axis.phases.size());
    return count;
}

} // namespace tconv3d
