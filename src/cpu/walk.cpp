#include "walk.hpp"

#include <algorithm>

#include "../core/cuts.hpp"

namespace tconv3d::cpu {

namespace {

WalkDimension fwd_dimension(const DimensionPhases& phases, int64_t src, int64_t dst) {
    WalkDimension dim{src, dst, 1, phases.stride, phases.padding, {}, {}, 0, 0, 0, 0};
    for (const Phase& phase : phases.phases) {
        WalkPhase walk{phase.q_first, phase.count, {}};
        for (const Tap& tap : phase.taps) walk.taps.push_back({tap.tap, 0, tap.delta});
        dim.phases.push_back(std::move(walk));
    }
    return dim;
}

WalkDimension bwd_dimension(const DimensionPhases& phases, int64_t src, int64_t dst, int64_t kernel) {
    WalkDimension dim{dst, src, phases.stride, 1, 0, {}, {}, 0, 0, 0, 0};
    WalkPhase walk{0, src, {}};
    for (int64_t tap = 0; tap < kernel; ++tap) {
        const Reach at = reach(phases, tap);
        walk.taps.push_back({tap, at.remainder, at.shift});
    }
    dim.phases.push_back(std::move(walk));
    return dim;
}

void summarise(WalkDimension& dim) {
    bool any_phase = false, any_tap = false;
    for (const WalkPhase& phase : dim.phases) {
        if (phase.count == 0) continue;
        const int64_t end = phase.q_first + phase.count;
        dim.q_begin = any_phase ? std::min(dim.q_begin, phase.q_first) : phase.q_first;
        dim.q_end = any_phase ? std::max(dim.q_end, end) : end;
        any_phase = true;
        for (const WalkTap& tap : phase.taps) {
            dim.shift_min = any_tap ? std::min(dim.shift_min, tap.shift) : tap.shift;
            dim.shift_max = any_tap ? std::max(dim.shift_max, tap.shift) : tap.shift;
            any_tap = true;
            if (std::find(dim.remainders.begin(), dim.remainders.end(), tap.remainder) == dim.remainders.end()) {
                dim.remainders.push_back(tap.remainder);
            }
        }
    }
    std::sort(dim.remainders.begin(), dim.remainders.end());
}

} // namespace

int64_t WalkDimension::plane_extent(int64_t remainder) const {
    return std::max<int64_t>(0, floor_div(in_extent - remainder + in_stride - 1, in_stride));
}

int64_t WalkDimension::plane_index(int64_t remainder) const {
    return std::find(remainders.begin(), remainders.end(), remainder) - remainders.begin();
}

Walk::Walk(const Problem& problem) {
    const PhaseTable table(problem);
    const Extents dst = problem.dst();
    for (size_t i = 0; i < 3; ++i) {
        dims[i] = problem.direction == Direction::fwd
                      ? fwd_dimension(table.dims[i], problem.src[i], dst[i])
                      : bwd_dimension(table.dims[i], problem.src[i], dst[i], problem.kernel[i]);
        summarise(dims[i]);
    }
}

int64_t Walk::planes() const {
    int64_t count = 1;
    for (const WalkDimension& dim : dims) count *= static_cast<int64_t>(dim.remainders.size());
    return count;
}

int64_t Walk::phases() const {
    int64_t count = 1;
    for (const WalkDimension& dim : dims) count *= static_cast<int64_t>(dim.phases.size());
    return count;
}

} // namespace tconv3d::cpu
