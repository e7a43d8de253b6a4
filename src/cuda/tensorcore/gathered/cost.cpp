#include <algorithm>
#include <vector>

#include "cuda/tensorcore/gathered/cost.hpp"
#include "cuda/tensorcore/staging.hpp"

// The clocks of tiles of gathered sums. The constants are fitted to measured times on an H200, as those of
// stream_estimate.cpp.
namespace tconv3d::cuda {

namespace {

/// Clocks until the positions of a stage are there. Those of a halo do not come, where rows do whole.
double bringing_clocks(const StreamTile& tile, const Problem& problem) {
    int64_t voxels = tile.images * tile.rows * tile.pitch;
    if (tile.source == StreamSource::runs) voxels = tile.images * tile.rows * problem.src[2];
    if (tile.source == StreamSource::whole) voxels = tile.images * problem.src[1] * problem.src[2];
    const double core_rows = static_cast<double>(voxels * 2 * tile.steps);
    if (tile.source == StreamSource::global) return 9 * core_rows + 450;
    if (problem.channels_last()) return 0.4 * core_rows + 600;
    // With two stages, the warps that arrange wait for those that multiply; with one buffer, for the copy engine.
    const double kept = tile.raw_stages == 1 ? 1560 : 600;
    const double waits = tile.keeps ? kept : tile.stages == 2 ? 980 : 910;
    return (stream_is_16_bit(problem) ? 1.59 : 1.58) * core_rows + waits;
}

/// Clocks that the outputs of a step take.
double store_clocks(const StreamTile& tile, const Problem& problem) {
    const double bytes = static_cast<double>(bytes_per_element(problem.dtype));
    const double outputs = static_cast<double>(tile.images * tile.dst_channels * tile.h * tile.w * problem.stride[2]);
    const bool one = problem.stride[2] == 1;
    if (problem.channels_last()) return outputs * (one ? 0.092 + 0.102 * bytes : 0.049 + 0.05 * bytes);
    if (tile.pieces) return outputs * 0.18;
    if (tile.seams) return outputs * (0.1 + 0.062 * bytes);
    if (tile.store == StreamStore::staged) return outputs * (0.25 + 0.09 * bytes);
    return outputs * (one ? 0.03 + 0.107 * bytes : 0.145 + 0.044 * bytes);
}

/// Clocks of a stage's products with all groups of taps in all passes. Weights come while those before are multiplied,
/// later where rows of odd length keep the L2 cache busy.
double product_clocks(const StreamTile& tile, const StreamTables& tables) {
    constexpr double kStage = 155, kBetween = 44, kLatency = 615, kByte = 0.0386, kBusy = 680;
    const double product = 0.425 * static_cast<double>(tile.columns) + 1.8;
    const double run = static_cast<double>(tile.steps * tile.m_tiles) * product;
    const double latency = kLatency + (tile.pieces || tile.seams ? kBusy : 0);
    const double arrival =
        (latency + kByte * static_cast<double>(tile.weight_stage_bytes)) / static_cast<double>(tile.weight_stages - 1);
    const std::vector<TapGroup>& groups = tables.tap_groups(tile.tap_groups);
    double clocks = 0;
    for (size_t i = 0; i + 1 < groups.size(); ++i) {
        const double runs = static_cast<double>(groups[i + 1].first_run - groups[i].first_run);
        clocks += std::max(runs * run, arrival) + kBetween;
    }
    return kStage + tables.mean_passes() * clocks;
}

/// Clocks of the products of a stage, while weights, and src unless it is kept, are copied.
double stage_clocks(const StreamTile& tile, const StreamTables& tables) {
    const double weights =
        tables.mean_passes() * static_cast<double>(tables.uses() * tile.steps * tile.dst_channels * 32);
    const double copied = ((tile.keeps ? 0 : static_cast<double>(tile.stage_bytes)) + weights) / 32;
    return std::max(product_clocks(tile, tables), copied);
}

/// Where slices of src are kept: clocks of all steps between two of them.
struct KeptSlice {
    double steps;    ///< that many
    double products; ///< of these
    double waiting;  ///< for the next slice, which comes when the first one has been read, and is read last
};

KeptSlice kept_slice(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    const double chunks = static_cast<double>(stream_chunks(problem, tile));
    const double kernel = static_cast<double>(problem.kernel[0]), sets = static_cast<double>(tables.row_sets.size());
    const double products = sets * kernel * chunks * stage_clocks(tile, tables);
    const double more = static_cast<double>(tile.stages - least_kept_stages(tile, problem, tables)) / chunks;
    const double hidden = (1 - 1 / kernel + more) * products, brought = chunks * bringing_clocks(tile, problem);
    return {static_cast<double>(problem.stride[0]) * sets, products,
            std::max({brought - hidden, brought - products, 0.0})};
}

/// Clocks of the products of a step, on average, while warps or the copy engine bring the next stages.
double multiply_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    if (tile.keeps) {
        const KeptSlice slice = kept_slice(tile, problem, tables);
        return (slice.products + slice.waiting) / slice.steps;
    }
    const double stages = static_cast<double>(problem.kernel[0] * stream_chunks(problem, tile)) /
                          static_cast<double>(problem.stride[0]); // of a step
    return stages * std::max(stage_clocks(tile, tables), bringing_clocks(tile, problem));
}

/// Clocks until the first slices are there, beside those for which every slice waits.
double first_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    if (!tile.keeps) return 0;
    const double stages = static_cast<double>(least_kept_stages(tile, problem, tables));
    return std::max(stages * bringing_clocks(tile, problem) - kept_slice(tile, problem, tables).waiting, 0.0);
}

/// How much longer a step takes where rows are cut.
double cut_factor(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    if (tile.w >= tables.q_end[2]) return 1;
    if (problem.channels_last()) return 1.06;
    return tile.store == StreamStore::staged ? 2.6 : 1.15;
}

/// Clocks of a step on one multiprocessor. One warpgroup multiplies while the other one stores.
double step_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    constexpr double kStep = 745, kSeam = 108;
    const double seams = tile.seams ? kSeam * static_cast<double>(tile.h * problem.stride[1] - 1) : 0;
    const double multiply = multiply_clocks(tile, problem, tables) + kStep + seams;
    const double store = store_clocks(tile, problem);
    const double longer = std::max(multiply, store), shorter = std::min(multiply, store);
    return cut_factor(tile, problem, tables) * (longer + 0.165 * shorter * shorter / longer);
}

/// How much longer a step takes where CTAs do not walk side by side.
double alone_factor(const StreamTile& tile, const Problem& problem) {
    if (tile.pieces) return 1.15;
    if (tile.seams) return 1.2;
    return problem.channels_last() ? 1.015 : 1.035;
}

/// What CTAs take of the steps: items, and shares of those that are left over.
struct Shares {
    int64_t ctas, whole_items, share;
};

/// As many CTAs as there are multiprocessors, and shares of the steps of items that are not one for each.
Shares equal_shares(int64_t items, int64_t depth, int64_t multiprocessors, int64_t together) {
    const int64_t whole = depth > 0 ? items / multiprocessors * multiprocessors : 0, rest = (items - whole) * depth;
    if (whole > 0 && rest == 0) return {multiprocessors, whole, 0};
    const int64_t share = std::max(round_up(cuts(rest, multiprocessors), together), together);
    return {whole > 0 ? multiprocessors : std::max<int64_t>(cuts(rest, share), 1), whole, share};
}

/// Items only, for as few CTAs as take no more of them.
Shares whole_shares(int64_t items, int64_t multiprocessors) {
    return {cuts(items, cuts(items, multiprocessors)), items, 0};
}

/// Sets what CTAs take, such that the products and stores take the least clocks, and these. CTAs with whole items walk
/// along D side by side, so that what they write of neighbouring rows meets in the L2 cache.
void choose_shares(StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t multiprocessors) {
    const int64_t items = stream_items(problem, tables, tile), depth = stream_depth(tables, tile);
    // Rows that are stored with one another's help are of one CTA.
    const int64_t together = tile.seams || tile.pieces ? static_cast<int64_t>(tables.row_sets.size()) : 1;
    const double step = step_clocks(tile, problem, tables), alone = step * alone_factor(tile, problem);
    const auto clocks = [&](const Shares& shares) {
        return static_cast<double>(cuts(shares.whole_items, shares.ctas) * depth) * step +
               static_cast<double>(shares.share) * alone;
    };
    Shares best = equal_shares(items, depth, multiprocessors, together);
    if (items * depth > 0 && clocks(whole_shares(items, multiprocessors)) < clocks(best))
        best = whole_shares(items, multiprocessors);
    tile.ctas = best.ctas;
    tile.whole_items = best.whole_items;
    tile.share = best.share;
    tile.clocks = clocks(best);
}

} // namespace

int64_t least_kept_stages(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    return (tables.halo(0) + 1) * stream_chunks(problem, tile);
}

void estimate_gather(StreamTile& tile, const Problem& problem, const StreamTables& tables, int multiprocessors) {
    constexpr double kLaunch = 3500, kPackedByte = 0.001;
    choose_shares(tile, problem, tables, multiprocessors);
    tile.clocks += kLaunch + first_clocks(tile, problem, tables) +
                   kPackedByte * static_cast<double>(stream_packed_words(problem, tables, tile) * 4);
}

} // namespace tconv3d::cuda
