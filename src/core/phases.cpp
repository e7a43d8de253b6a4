#include "tconv3d/phases.hpp"

#include "cuts.hpp"

namespace tconv3d {

namespace {

/// Only the outputs 0 <= o < dst count.
Phase make_phase(const DimensionPhases& dim, int64_t r, int64_t dst) {
    const int64_t q_first = -floor_div(r - dim.padding, dim.stride); // smallest q with stride·q + r − padding >= 0
    const int64_t first = dim.output(r, q_first);
    const int64_t count = first < dst ? (dst - 1 - first) / dim.stride + 1 : 0;
    return {q_first, count, {}};
}

DimensionPhases make_dimension(const Problem& problem, size_t i, int64_t dst) {
    DimensionPhases dim{problem.stride[i], problem.padding[i], problem.dilation[i], {}};
    dim.phases.reserve(static_cast<size_t>(dim.stride));
    for (int64_t r = 0; r < dim.stride; ++r) dim.phases.push_back(make_phase(dim, r, dst));
    // Tap j belongs to the phase r ≡ j·d (mod s), where it reads q + (r − j·d)/s: that division is exact.
    for (int64_t tap = 0; tap < problem.kernel[i]; ++tap) {
        const int64_t r = tap * dim.dilation % dim.stride;
        dim.phases[static_cast<size_t>(r)].taps.push_back({tap, (r - tap * dim.dilation) / dim.stride});
    }
    return dim;
}

} // namespace

PhaseTable::PhaseTable(const Problem& problem) {
    const Extents dst = problem.dst();
    for (size_t i = 0; i < 3; ++i) dims[i] = make_dimension(problem, i, dst[i]);
}

Reach reach(const DimensionPhases& dim, int64_t tap) {
    const int64_t offset = tap * dim.dilation - dim.padding;
    const int64_t shift = floor_div(offset, dim.stride);
    return {shift, offset - shift * dim.stride};
}

} // namespace tconv3d
