// The tiles of the outer form: those that fit, of which the least estimates are kept.
#include <algorithm>
#include <map>

#include "core/cuts.hpp"
#include "cuda/outer/tile.hpp"
#include "cuda/reduction/candidates.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kMostAccumulators = 192; // of a thread
constexpr int64_t kMostBox = 256;          // what a box of TMA spans along a dimension

/// What estimates of the outer form are made of, in clocks. They follow from the hardware and from what was measured of
/// other forms; none was fitted to this one.
struct OuterModel {
    double row_clocks = 16;                 ///< that shared memory takes for the 64 rows of a product
    double column_clocks = 0.25;            ///< that it takes for each column
    double product_clocks = 0.5;            ///< that tensor cores take for each column
    double copied_row_clocks = 2;           ///< that TMA takes for a row of a box, however short
    double fetched_bytes_per_clock = 53;    ///< from the L2 cache, for each multiprocessor
    double transposed_bytes_per_clock = 30; ///< by four warps
    double box_clocks = 150;                ///< of each box, beside what overlaps
    double item_clocks = 6000;              ///< to begin and end a CTA
};
constexpr OuterModel kModel;
constexpr SplitModel kSplits;

double as_double(int64_t value) {
    return static_cast<double>(value);
}

/// A tile without a box yet, and what its blocks of taps need of grad_dst.
struct Shape {
    OuterTile tile;
    int64_t planes, raw_boxes;

    Shape(const Problem& problem, const OuterTile& of) : tile(of), planes(0), raw_boxes(0) {
        const std::vector<OuterTapBlock> blocks = outer_tap_blocks(problem, tile.block_taps());
        planes = most_planes(blocks);
        raw_boxes = most_raw_boxes(blocks);
    }
};

/// What staging a box takes: of TMA and the L2 cache, of shared memory, and of the warps that transpose.
struct Staging {
    double copies, fetching, shared, transposing;

    Staging(const Problem& problem, const Shape& shape, const OuterTile& tile) {
        const OuterPlane src = outer_src_plane(problem, tile), dst = outer_dst_plane(problem, tile);
        const double planes = as_double(shape.planes), raws = as_double(shape.raw_boxes);
        double rows = 0, bytes = 0; // that TMA brings
        if (problem.channels_last()) {
            rows = src.atoms() * src.h * src.w + planes * dst.atoms() * dst.h * dst.w;
            bytes = 2 * (src.channels * src.h * src.w + planes * dst.channels * dst.h * dst.w);
        } else {
            const OuterRaw raw_src = outer_src_raw(problem, tile), raw_dst = outer_dst_raw(problem, tile);
            rows = raw_src.channels * raw_src.h + raws * raw_dst.channels * raw_dst.h;
            bytes = raw_src.bytes() + raws * raw_dst.bytes();
        }
        copies = rows * kModel.copied_row_clocks;
        fetching = bytes / kModel.fetched_bytes_per_clock;
        transposing = problem.channels_last() ? 0 : bytes / kModel.transposed_bytes_per_clock;
        shared = bytes / 128 * (problem.channels_last() ? 1 : 3); // written, and read and written again
    }
};

double box_clocks(const Problem& problem, const Shape& shape, const OuterTile& tile) {
    const Staging staging(problem, shape, tile);
    const double products = as_double(tile.block_taps() * tile.steps()), columns = as_double(tile.columns);
    const double shared = products * (kModel.row_clocks + columns * kModel.column_clocks) + staging.shared;
    return kModel.box_clocks + std::max({products * columns * kModel.product_clocks, shared, staging.copies,
                                         staging.fetching, staging.transposing});
}

void choose_splits(const Problem& problem, const Device& device, const Shape& shape, OuterTile& tile) {
    const int64_t items = outer_items(problem, tile), boxes = outer_boxes(problem, tile);
    const double clocks = box_clocks(problem, shape, tile);
    const double stored = as_double(tile.block_taps() * kOuterRows * tile.columns) / 32 * 4;
    const auto estimate = [&](const OuterTile& split) {
        const double cta = as_double(cuts(boxes, split.splits)) * clocks + stored + kModel.item_clocks;
        const double second_pass = split.splits > 1 ? kSplits.second_pass(problem, device, split.splits) : 0;
        return kSplits.products(problem, device, as_double(cuts(items * split.splits, device.multiprocessors)) * cta) +
               second_pass;
    };
    set_best_splits(tile, split_counts(problem, device, {items, boxes, boxes * tile.steps()}), estimate);
}

/// Whether boxes of both tensors are such as TMA brings.
bool is_copied(const Problem& problem, const OuterTile& tile) {
    for (const tensorcore::MapShape& map : {outer_src_map(problem, tile), outer_dst_map(problem, tile)})
        for (size_t i = 0; i < map.box.size(); ++i)
            if (map.box[i] * map.steps[i] > kMostBox) return false;
    return true;
}

/// Sets as many stages as fit, up to four of each kind; false where two do not.
bool set_stages(const Problem& problem, const Device& device, int64_t planes, OuterTile& tile) {
    constexpr int64_t kMostStages = 4;
    const int64_t raw = outer_raw_box_bytes(problem, tile), stage = outer_stage_bytes(problem, tile, planes);
    int64_t room = device.shared_memory_per_block - OuterPlane::kSwizzlePeriod;
    tile.raw_stages = problem.channels_last() ? 0 : std::clamp<int64_t>((room - 2 * stage) / raw, 0, kMostStages);
    if (!problem.channels_last() && tile.raw_stages < 2) return false;
    room -= tile.raw_stages * raw;
    tile.stages = std::min(kMostStages, room / stage);
    return tile.stages >= 2;
}

/// The box of a shape with the least estimate; without an estimate where none fits.
OuterTile with_best_box(const Problem& problem, const Device& device, const Shape& shape) {
    OuterTile best = shape.tile;
    for (const int64_t width : {8, 16, 32, 48, 64, 96, 128})
        for (const int64_t height : equal_parts(problem.src[1], {1, 2, 4, 6, 8, 12, 16, 24, 32})) {
            OuterTile tile = shape.tile;
            tile.width = width;
            tile.height = width == 8 ? round_up(height, 2) : height;
            if (width >= round_up(problem.src[2], 8) + 16 || !is_copied(problem, tile) ||
                !set_stages(problem, device, shape.planes, tile))
                continue;
            choose_splits(problem, device, shape, tile);
            const bool countable = cuts(outer_boxes(problem, tile), tile.splits) < int64_t{1} << 31;
            if (countable && (best.microseconds == 0 || tile.microseconds < best.microseconds)) best = tile;
        }
    return best;
}

/// The numbers of columns that divide so many channels.
std::vector<int64_t> column_counts(int64_t channels) {
    std::vector<int64_t> list;
    for (const int64_t columns : {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256})
        if (channels % columns == 0) list.push_back(columns);
    return list;
}

/// Taps of a warpgroup, such that blocks have about as many.
std::vector<int64_t> tap_counts(const Problem& problem, int64_t columns) {
    const int64_t all = problem.kernel[0] * problem.kernel[1] * problem.kernel[2];
    std::vector<int64_t> list;
    for (const int64_t most : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24}) {
        const int64_t taps = cuts(cuts(all, cuts(all, 2 * most)), 2);
        if (taps * columns / 2 <= kMostAccumulators && (list.empty() || list.back() != taps)) list.push_back(taps);
    }
    return list;
}

/// Clocks of the products alone, of all CTAs.
double product_clocks(const Problem& problem, const OuterTile& tile) {
    const double columns = as_double(tile.columns);
    return as_double(outer_items(problem, tile) * tile.block_taps()) *
           std::max(columns * kModel.product_clocks, kModel.row_clocks + columns * kModel.column_clocks);
}

/// Whether planes are small enough for a box of TMA, whatever the tile.
bool has_small_halo(const Problem& problem) {
    const OuterHalo halo = outer_halo(problem);
    return halo.h < kMostBox && halo.w < kMostBox;
}

} // namespace

std::vector<OuterTile> best_outer_tiles(const Problem& problem, const Device& device, size_t most) {
    constexpr size_t kShapes = 16; // whose boxes are gone through
    std::multimap<double, OuterTile> by_products, by_time;
    for (const bool rows_are_dst : {false, true}) {
        const int64_t src = problem.src_channels_per_group(), dst = problem.dst_channels_per_group();
        if ((rows_are_dst ? dst : src) % kOuterRows != 0 || !has_small_halo(problem)) continue;
        for (const int64_t columns : column_counts(rows_are_dst ? src : dst))
            for (const int64_t taps : tap_counts(problem, columns)) {
                const OuterTile shape = {rows_are_dst, columns, taps, 0, 0};
                by_products.emplace(product_clocks(problem, shape), shape);
            }
    }
    for (const OuterTile& shape : first_of(by_products, kShapes)) {
        const OuterTile tile = with_best_box(problem, device, {problem, shape});
        if (tile.microseconds > 0) by_time.emplace(tile.microseconds, tile);
    }
    return first_of(by_time, most);
}

} // namespace tconv3d::cuda
