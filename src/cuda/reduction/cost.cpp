#include "cuda/reduction/cost.hpp"

#include <algorithm>

#include "core/cuts.hpp"

namespace tconv3d::cuda {
namespace {

constexpr ReductionModel kModel;

/// Of the sums of all splits; one weight may be more, but then there is one split, which has no sums.
constexpr int64_t kMostWorkspace = int64_t{64} << 20;

double as_double(int64_t value) {
    return static_cast<double>(value);
}

double tensor_clocks(const Problem& problem, const ReductionTile& tile, const Device& device) {
    const int64_t products = box_steps(problem, tile) * (tile.src_channels / 16) * tile.warp_columns() *
                             tile.column_warps() * (reduction_parts(problem) == 2 ? 3 : 1);
    return as_double(products) * kModel.product_clocks * (device.sm == 90 || device.sm == 100 ? 1 : 2);
}

/// A fragment of 16 rows is 512 bytes, of 8 columns 256; in 16 bits columns come in pairs.
double fragment_clocks(const Problem& problem, const ReductionTile& tile) {
    const int64_t columns = round_up(tile.warp_columns(), problem.dtype == DType::f32 ? 1 : 2);
    const int64_t bytes = box_steps(problem, tile) * reduction_parts(problem) * (ReductionTile::kThreads / 32) *
                          (512 * tile.warp_rows() + 256 * columns);
    return as_double(bytes) / kModel.shared_bytes_per_clock;
}

double layout_clocks(const StagedTensor& tensor) {
    const double elements = as_double(int64_t{tensor.box.voxels()} * tensor.channels);
    return elements * kModel.layout_instructions / kModel.lanes_per_clock +
           as_double(tensor.bytes()) / kModel.shared_bytes_per_clock;
}

/// Of one multiprocessor's CTAs, all splits of it together.
double kernel_clocks(const Problem& problem, const ReductionTile& tile, const Device& device) {
    const int64_t items = cuts(split_items(problem, tile) * tile.splits, device.multiprocessors);
    const int64_t tiles = cuts(all_tiles(problem, tile), tile.splits);
    // Of the results of a CTA, each is a sector of its own; sums of splits fill theirs.
    const double stored = as_double(tile.block_taps() * tile.src_channels * tile.dst_channels) *
                          (tile.splits > 1 ? 4 : 32) / kModel.copied_bytes_per_clock;
    const bool overlapped = tile.ctas > 1 && items > 1;
    return as_double(items) *
           (as_double(tiles) * tile_clocks(problem, tile, device, overlapped) + stored + kModel.item_clocks);
}

double estimate(const Problem& problem, const ReductionTile& tile, const Device& device) {
    const double scale = 132.0 / device.multiprocessors;
    const double bytes = problem.bytes() / kModel.bytes_per_microsecond * scale;
    const double dst_bytes = as_double(problem.dst_elements() * bytes_per_element(problem.dtype));
    const double bias = kModel.next_launch + dst_bytes / kModel.bytes_per_microsecond * scale;
    const double sums = tile.splits > 1 ? as_double(split_sums(problem)) * as_double(tile.splits + 1) * 4 : 0;
    const double second_pass = kModel.next_launch + sums / kModel.bytes_per_microsecond * scale;
    return kModel.launch + std::max(bytes, kernel_clocks(problem, tile, device) / kModel.clocks_per_microsecond) +
           bias + second_pass;
}

} // namespace

double tile_clocks(const Problem& problem, const ReductionTile& tile, const Device& device, bool overlapped) {
    const StagedTensor src = staged_src(problem, tile), dst = staged_dst(problem, tile);
    const double tensor = tensor_clocks(problem, tile, device), fragments = fragment_clocks(problem, tile);
    const double layout = layout_clocks(src) + layout_clocks(dst);
    const double copies = as_double(src.raw_bytes() + dst.raw_bytes()) / kModel.copied_bytes_per_clock;
    if (overlapped) return std::max({copies, tensor, fragments + layout}) + kModel.barriers;
    return std::max({copies + kModel.copy_latency, tensor, fragments}) + layout + kModel.barriers;
}

void choose_splits(const Problem& problem, const Device& device, ReductionTile& tile) {
    const int64_t items = split_items(problem, tile), tiles = std::max<int64_t>(all_tiles(problem, tile), 1);
    const int64_t most = std::max<int64_t>(std::min(tiles, kMostWorkspace / 4 / split_sums(problem)), 1);
    // As many as fill the device once, twice, and so on.
    constexpr int64_t kMostTimes = 6;
    ReductionTile best = tile;
    for (int64_t times = 0; times <= kMostTimes; ++times) {
        tile.splits = std::clamp<int64_t>(times * device.multiprocessors / items, 1, most);
        tile.microseconds = estimate(problem, tile, device);
        if (times == 0 || tile.microseconds < best.microseconds) best = tile;
    }
    tile = best;
}

} // namespace tconv3d::cuda
