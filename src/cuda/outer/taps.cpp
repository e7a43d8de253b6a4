#include "cuda/outer/taps.hpp"

#include <algorithm>
#include <numeric>

#include "core/cuts.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {
namespace {

/// The taps along a dimension. Voxel i of src meets voxel stride · i + offset of grad_dst through a tap. The offsets of
/// a phase differ by multiples of the stride: every period-th tap has the same one. Its plane begins with the least of
/// them, that of the first tap.
struct AxisTaps {
    int64_t count, stride, dilation, padding, period;

    AxisTaps(const Problem& problem, size_t axis)
        : count(problem.kernel[axis]), stride(reduction_stride(problem)[axis]),
          dilation(reduction_dilation(problem)[axis]), padding(problem.padding[axis]),
          period(stride / std::gcd(stride, dilation)) {}
    int64_t offset(int64_t tap) const { return tap * dilation - padding; }
    /// Phases that have a tap: each is named by its first one.
    int64_t phases() const { return std::min(count, period); }
    /// How many voxels of its plane a tap is behind the first one.
    int64_t distance(int64_t tap) const { return tap / period * (period * dilation / stride); }
    int64_t halo() const { return distance(count - 1); }
};

int64_t phase_of(int64_t voxel, int64_t stride) {
    return (voxel % stride + stride) % stride;
}

/// All taps along H and W of the phases that two taps begin.
std::vector<OuterTap> plane_taps(const AxisTaps& h, const AxisTaps& w, int64_t first_h, int64_t first_w) {
    std::vector<OuterTap> taps;
    for (int64_t at_h = first_h; at_h < h.count; at_h += h.period)
        for (int64_t at_w = first_w; at_w < w.count; at_w += w.period)
            taps.push_back({at_h * w.count + at_w, 0, h.distance(at_h), w.distance(at_w)});
    return taps;
}

/// Adds a tap to the last block, or to a next one where that is full.
void add_tap(std::vector<OuterTapBlock>& blocks, int64_t block_taps, const Extents& plane, OuterTap tap) {
    if (blocks.empty() || static_cast<int64_t>(blocks.back().taps.size()) == block_taps) blocks.emplace_back();
    OuterTapBlock& block = blocks.back();
    if (block.planes.empty() || block.planes.back().first != plane) block.planes.push_back({plane});
    tap.plane = static_cast<int64_t>(block.planes.size()) - 1;
    block.taps.push_back(tap);
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
    rows.first = taps.offset(0) - phase_of(taps.offset(0), 8);
    for (int64_t tap = 0; tap < taps.phases(); ++tap)
        rows.phase_first[static_cast<size_t>(phase_of(taps.offset(tap), taps.stride))] = taps.offset(tap);
    const int64_t last = taps.offset(taps.phases() - 1) + taps.stride * (box_width + taps.halo() - 1);
    rows.width = odd_eights(last - rows.first + 1);
    return rows;
}

std::vector<OuterTapBlock> outer_tap_blocks(const Problem& problem, int64_t block_taps) {
    const AxisTaps d(problem, 0), h(problem, 1), w(problem, 2);
    std::vector<OuterTapBlock> blocks;
    for (int64_t at_d = 0; at_d < d.count; ++at_d)
        for (int64_t first_h = 0; first_h < h.phases(); ++first_h)
            for (int64_t first_w = 0; first_w < w.phases(); ++first_w)
                for (OuterTap& tap : plane_taps(h, w, first_h, first_w)) {
                    tap.number += at_d * h.count * w.count;
                    add_tap(blocks, block_taps, {d.offset(at_d), h.offset(first_h), w.offset(first_w)}, tap);
                }
    return blocks;
}

} // namespace tconv3d::cuda
