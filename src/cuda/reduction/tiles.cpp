// The tiles of the reduced form: those that fit, of which the least estimates are kept.
#include <algorithm>
#include <map>

#include "core/cuts.hpp"
#include "cuda/reduction/candidates.hpp"
#include "cuda/reduction/cost.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kMostAccumulators = 144;  // of a thread: with the most addresses beside them, 240 of 255 registers
constexpr int64_t kSharedAccumulators = 64; // where two CTAs share a multiprocessor, with 128 registers for a thread
constexpr int64_t kMostBoxVoxels = 1024;
constexpr int64_t kMostMet = 4096;        // voxels of a box of grad_dst: far more than fit with some channels
constexpr int64_t kReservedShared = 1024; // of each CTA, by the driver
constexpr size_t kShapes = 12;            // whose boxes are gone through

std::vector<int64_t> sizes_up_to(int64_t most, std::initializer_list<int64_t> sizes) {
    std::vector<int64_t> list;
    for (const int64_t size : sizes)
        if (list.empty() || size <= most) list.push_back(size);
    return list;
}

/// Blocks of taps: some along W; or whole rows, some of them; or whole planes, some of them.
std::vector<Extents> tap_blocks(const Problem& problem) {
    const Extents& kernel = problem.kernel;
    const auto some = [](int64_t taps) { return equal_parts(taps, {1, 2, 3, 4, 6, 8, 16, 32, 64}); };
    std::vector<Extents> list;
    for (const int64_t w : some(kernel[2]))
        if (w < kernel[2] || kernel[1] * kernel[0] == 1) list.push_back({1, 1, w});
    constexpr int64_t kMost = 64;
    if (kernel[2] <= kMost)
        for (const int64_t h : some(kernel[1]))
            if (h < kernel[1] || kernel[0] == 1) list.push_back({1, h, kernel[2]});
    if (kernel[2] <= kMost && kernel[1] <= kMost)
        for (const int64_t d : some(kernel[0])) list.push_back({d, kernel[1], kernel[2]});
    return list;
}

/// Where fp32 is split, half of them leave room for the rows of two k steps in two parts, and for a sum of these steps.
int64_t accumulators(const Problem& problem, const ReductionTile& tile) {
    return tile.warp_rows() * tile.warp_columns() * 4 * reduction_parts(problem);
}

/// Whether the voxels that a box meets are few enough to be counted in 32 bits.
bool is_countable(const Problem& problem, const ReductionTile& tile) {
    const Extents stride = reduction_stride(problem), dilation = reduction_dilation(problem);
    int64_t voxels = 1;
    for (size_t i = 0; i < 3; ++i) {
        const int64_t met = met_extent(tile.box[i], stride[i], tile.taps[i], dilation[i]);
        if (met > kMostMet) return false;
        voxels *= met;
    }
    return voxels <= kMostMet;
}

/// Sets how many CTAs a multiprocessor has; false where it has no room for one.
bool fits(const Problem& problem, const Device& device, ReductionTile& tile) {
    if (tile.box_voxels() > kMostBoxVoxels || !is_countable(problem, tile)) return false;
    const int64_t bytes = reduction_shared_bytes(problem, tile);
    if (bytes > device.shared_memory_per_block) return false;
    const bool shares = accumulators(problem, tile) <= kSharedAccumulators &&
                        2 * (bytes + kReservedShared) <= device.shared_memory_per_multiprocessor;
    tile.ctas = shares ? 2 : 1;
    return true;
}

/// Channels, taps and warps: everything but the box, the best first by a box of the usual size, of which a part that
/// has boxes at all.
std::vector<ReductionTile> shapes(const Problem& problem, const Device& device) {
    std::multimap<double, ReductionTile> by_clocks;
    const Extents usual = {std::min<int64_t>(problem.src[0], 2), std::min<int64_t>(problem.src[1], 4),
                           std::min<int64_t>(problem.src[2], 16)};
    const auto add = [&](ReductionTile shape) {
        if (shape.src_channels / 16 % shape.row_warps != 0) return;
        if (accumulators(problem, shape) > kMostAccumulators) return;
        if (!is_countable(problem, shape)) shape.box = {1, 1, 1};
        if (!is_countable(problem, shape)) return;
        const double clocks = static_cast<double>(split_items(problem, shape)) *
                              static_cast<double>(all_tiles(problem, shape)) * tile_clocks(problem, shape, device, 2);
        by_clocks.emplace(clocks, shape);
    };
    const int64_t src = round_up(problem.src_channels_per_group(), 16);
    const int64_t dst = round_up(problem.dst_channels_per_group(), 8);
    for (const Extents& taps : tap_blocks(problem))
        for (const int64_t src_channels : sizes_up_to(src, {16, 32, 48, 64, 96, 128}))
            for (const int64_t dst_channels : sizes_up_to(dst, {8, 16, 24, 32, 48, 64, 96, 128}))
                for (const int64_t row_warps : {1, 2, 4}) add({src_channels, dst_channels, taps, usual, row_warps});
    return first_of(by_clocks, kShapes);
}

/// The best box of a shape; without an estimate where none fits.
ReductionTile with_best_box(const Problem& problem, const Device& device, const ReductionTile& shape) {
    ReductionTile best = shape;
    best.microseconds = 0;
    for (const int64_t d : equal_parts(problem.src[0], {1, 2, 4, 8}))
        for (const int64_t h : equal_parts(problem.src[1], {1, 2, 4, 8, 16}))
            for (const int64_t w : equal_parts(problem.src[2], {1, 4, 8, 16, 32, 64})) {
                ReductionTile tile = shape;
                tile.box = {d, h, w};
                if (!fits(problem, device, tile)) continue;
                choose_splits(problem, device, tile);
                if (best.microseconds == 0 || tile.microseconds < best.microseconds) best = tile;
            }
    return best;
}

} // namespace

std::vector<ReductionTile> best_reduction_tiles(const Problem& problem, const Device& device, size_t most) {
    std::multimap<double, ReductionTile> by_time;
    for (const ReductionTile& shape : shapes(problem, device)) {
        const ReductionTile tile = with_best_box(problem, device, shape);
        if (tile.microseconds > 0) by_time.emplace(tile.microseconds, tile);
    }
    return first_of(by_time, most);
}

} // namespace tconv3d::cuda
