#include "cuda/outer/taps.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {
namespace {

/// The taps along a dimension. Voxel i of src meets voxel stride · i + offset of grad_dst through a tap. The offsets of
/// a phase differ by multiples of the stride, and its plane begins with the least of them.
struct AxisTaps {
    int64_t stride;
    std::vector<int64_t> offsets; ///< of each tap

    AxisTaps(const Problem& problem, size_t axis) : stride(reduction_stride(problem)[axis]) {
        for (int64_t tap = 0; tap < problem.kernel[axis]; ++tap)
            offsets.push_back(tap * reduction_dilation(problem)[axis] - problem.padding[axis]);
    }
    /// The least offset of the phase of a tap. Offsets grow with the taps.
    int64_t first(int64_t tap) const {
        const int64_t offset = offsets[static_cast<size_t>(tap)];
        const auto same_phase = [&](int64_t other) { return (offset - other) % stride == 0; };
        return *std::find_if(offsets.begin(), offsets.end(), same_phase);
    }
    /// How many voxels of its plane a tap is behind the first one.
    int64_t distance(int64_t tap) const { return (offsets[static_cast<size_t>(tap)] - first(tap)) / stride; }
    int64_t halo() const {
        int64_t most = 0;
        for (int64_t tap = 0; tap < static_cast<int64_t>(offsets.size()); ++tap) most = std::max(most, distance(tap));
        return most;
    }
};

int64_t phase_of(int64_t voxel, int64_t stride) {
    return (voxel % stride + stride) % stride;
}

struct PlacedTap {
    Extents plane; ///< its first voxel; along D the tap's own slice
    OuterTap tap;
};

/// All taps, those of a plane one after another.
std::vector<PlacedTap> placed_taps(const Problem& problem) {
    const AxisTaps d(problem, 0), h(problem, 1), w(problem, 2);
    const auto [kernel_d, kernel_h, kernel_w] = problem.kernel;
    std::vector<PlacedTap> taps;
    for (int64_t at_d = 0; at_d < kernel_d; ++at_d)
        for (int64_t at_h = 0; at_h < kernel_h; ++at_h)
            for (int64_t at_w = 0; at_w < kernel_w; ++at_w)
                taps.push_back({{d.offsets[static_cast<size_t>(at_d)], h.first(at_h), w.first(at_w)},
                                {(at_d * kernel_h + at_h) * kernel_w + at_w, 0, h.distance(at_h), w.distance(at_w)}});
    std::stable_sort(taps.begin(), taps.end(),
                     [](const PlacedTap& a, const PlacedTap& b) { return a.plane < b.plane; });
    return taps;
}

} // namespace

int64_t odd_eights(int64_t voxels) {
    return (cuts(voxels, 8) | 1) * 8;
}

std::vector<OuterTapBlock::RawBox> OuterTapBlock::raw_boxes() const {
    std::vector<RawBox> boxes;
    for (size_t i = 0; i < planes.size(); ++i) {
        const Extents& first = planes[i].first;
        const bool begins = i == 0 || planes[i - 1].first[0] != first[0] || planes[i - 1].first[1] != first[1];
        if (begins) boxes.push_back({i, i});
        boxes.back().end = i + 1;
    }
    return boxes;
}

OuterHalo outer_halo(const Problem& problem) {
    return {AxisTaps(problem, 1).halo(), AxisTaps(problem, 2).halo()};
}

size_t outer_phase(const Problem& problem, const OuterDstPlane& plane) {
    return static_cast<size_t>(phase_of(plane.first[2], reduction_stride(problem)[2]));
}

OuterRawRows outer_raw_rows(const Problem& problem, int64_t box_width) {
    const AxisTaps taps(problem, 2);
    OuterRawRows rows = {0, 0, std::vector<int64_t>(static_cast<size_t>(taps.stride))};
    const int64_t least = taps.offsets.front();
    rows.first = least - phase_of(least, 8);
    int64_t last = 0;
    for (int64_t tap = 0; tap < problem.kernel[2]; ++tap) {
        const int64_t first = taps.first(tap);
        rows.phase_first[static_cast<size_t>(phase_of(first, taps.stride))] = first;
        last = std::max(last, first + taps.stride * (box_width + taps.halo() - 1) - rows.first);
    }
    rows.width = odd_eights(last + 1);
    return rows;
}

std::vector<OuterTapBlock> outer_tap_blocks(const Problem& problem, int64_t block_taps) {
    std::vector<OuterTapBlock> blocks;
    for (PlacedTap& placed : placed_taps(problem)) {
        if (blocks.empty() || static_cast<int64_t>(blocks.back().taps.size()) == block_taps) blocks.emplace_back();
        OuterTapBlock& block = blocks.back();
        if (block.planes.empty() || block.planes.back().first != placed.plane) block.planes.push_back({placed.plane});
        placed.tap.plane = static_cast<int64_t>(block.planes.size()) - 1;
        block.taps.push_back(placed.tap);
    }
    return blocks;
}

} // namespace tconv3d::cuda
