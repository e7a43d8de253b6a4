#include "cuda/tensorcore/gathered/cost.hpp"

#include <algorithm>
#include <vector>

#include "core/cuts.hpp"
#include "core/direction.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

double as_double(int64_t value) {
    return static_cast<double>(value);
}

/// Whether rows are stored with one another's help.
bool joins_rows(const Config& config) {
    return config.store.way == Store::seamed_rows || config.store.way == Store::bulk_rows;
}

/// Estimates one config.
class GatheredClocks {
public:
    GatheredClocks(const Config& config, const Problem& problem, const TapTables& tables, const GatheredModel& model)
        : config_(config), problem_(problem), tables_(tables), model_(model) {}

    /// Clocks of an output slice on one multiprocessor.
    double of_slice() const;
    /// How much longer an output slice takes where CTAs do not walk side by side.
    double alone_factor() const;
    /// Clocks until the first input slices are there, beside those for which every slice waits.
    double of_first() const;

private:
    /// Where input slices are retained: the output slices that are made between two of their arrivals.
    struct Retained {
        double slices;   ///< that many
        double products; ///< clocks of their products
        double waiting;  ///< for the next slice, which comes when the first one has been read, and is read last
    };

    double of_input() const;
    double of_stores() const;
    double of_products() const;
    double of_stage() const;
    Retained retained() const;
    double of_multiplying() const;
    double cut_factor() const;

    const Config& config_;
    const Problem& problem_;
    const TapTables& tables_;
    const GatheredModel& model_;
};

/// Clocks until the positions of a stage are there. Where rows come whole, their halo does not come.
double GatheredClocks::of_input() const {
    const GatheredInputCost& cost = model_.input;
    const Extents in = in_extents(problem_);
    const Source source = config_.input.source;
    int64_t voxels = config_.tile.images * config_.plane.rows * config_.plane.pitch;
    if (source == Source::whole_rows) voxels = config_.tile.images * config_.plane.rows * in[2];
    if (source == Source::whole_planes) voxels = config_.tile.images * in[1] * in[2] / tables_.staged_planes();
    const double rows = as_double(tables_.staged_planes() * voxels * filled_cores(problem_, config_)) *
                        (config_.has_rearrangers() ? cost.more_warps : 1);
    if (source == Source::global) return cost.global_row * rows + cost.global_wait;
    if (!has_channel_planes(problem_)) return cost.swizzled_row * rows + cost.swizzled_wait;
    const double retained = config_.input.raw_stages == 1 ? cost.one_raw_stage_wait : cost.retained_wait;
    const double waits = config_.pipeline.retains_slices ? retained
                         : config_.pipeline.stages == 2  ? cost.two_stages_wait
                                                         : cost.wait;
    if (source == Source::ranges) return (is_16_bit(problem_) ? cost.half_range_row : cost.range_row) * rows + waits;
    if (is_16_bit(problem_)) return cost.halves_row * rows + waits;
    return cost.floats_row * (config_.input.scatters_elements(problem_) ? cost.apart : 1) * rows + waits;
}

/// The outputs of an output slice.
double GatheredClocks::of_stores() const {
    const GatheredStoreCost& cost = model_.store;
    const double bytes = as_double(bytes_per_element(problem_.dtype));
    const int64_t stride = out_stride(problem_)[2];
    const TileShape& tile = config_.tile;
    const double outputs = as_double(tile.images * tile.channels * tile.h * tile.w * stride);
    const bool one = stride == 1;
    if (problem_.channels_last())
        return outputs * (one ? cost.channels_stride_1 + cost.channels_stride_1_byte * bytes
                              : cost.channels + cost.channels_byte * bytes);
    if (config_.store.way == Store::bulk_rows) return outputs * cost.bulk_rows;
    if (config_.store.way == Store::seamed_rows) return outputs * (cost.seamed_rows + cost.seamed_rows_byte * bytes);
    if (config_.store.way == Store::warp_rows) return outputs * (cost.warp_rows + cost.warp_rows_byte * bytes);
    const double apart = config_.store.way == Store::voxels ? cost.voxels : 1;
    return outputs * apart *
           (one ? cost.vectors_stride_1 + cost.vectors_stride_1_byte * bytes
                : cost.vectors + cost.vectors_byte * bytes);
}

/// A stage's products with all tap groups in all passes. Weights come while those before are multiplied.
double GatheredClocks::of_products() const {
    const GatheredProductCost& cost = model_.product;
    const double product = cost.column * as_double(config_.products.columns) + cost.product;
    const double products = as_double(config_.input.steps * config_.products.m_tiles) * product;
    const double latency = cost.latency + (joins_rows(config_) ? cost.busy_latency : 0);
    const double arrival =
        (latency + cost.weight_byte * as_double(config_.weights.stage_bytes)) / as_double(config_.weights.stages - 1);
    const std::vector<TapGroup>& groups = tables_.plane.tap_groups(config_.products.tap_groups);
    double clocks = 0;
    for (size_t i = 0; i + 1 < groups.size(); ++i) {
        const double count = as_double(groups[i + 1].first_product - groups[i].first_product);
        clocks += std::max(count * products, arrival) + cost.group;
    }
    return cost.stage + tables_.plane.mean_passes() * clocks;
}

/// A stage's products, while weights, and input unless it is retained, are copied.
double GatheredClocks::of_stage() const {
    const double weights = tables_.plane.mean_passes() *
                           as_double(tables_.plane.taps() * config_.input.steps * config_.tile.channels * 32);
    const double input = config_.pipeline.retains_slices ? 0 : as_double(config_.pipeline.stage_bytes);
    return std::max(of_products(), (input + weights) / model_.product.bytes_per_clock);
}

GatheredClocks::Retained GatheredClocks::retained() const {
    const double stages = as_double(chunks(problem_, config_)), kernel = as_double(problem_.kernel[0]);
    const double sets = as_double(tables_.row_sets()), products = sets * kernel * stages * of_stage();
    const double more = as_double(config_.pipeline.stages - least_retained_stages(config_, problem_, tables_)) / stages;
    const double hidden = (1 - 1 / kernel + more) * products;
    const double brought = as_double(tables_.depth.planes) * stages * of_input();
    return {as_double(out_stride(problem_)[0]) * sets, products, std::max({brought - hidden, brought - products, 0.0})};
}

/// The products of an output slice, on average, while warps or TMA bring the next stages.
double GatheredClocks::of_multiplying() const {
    if (config_.pipeline.retains_slices) {
        const Retained slice = retained();
        return (slice.products + slice.waiting) / slice.slices;
    }
    const double stages = as_double(problem_.kernel[0] * chunks(problem_, config_)) /
                          as_double(out_stride(problem_)[0]); // of an output slice
    return stages * std::max(of_stage(), of_input());
}

double GatheredClocks::of_first() const {
    if (!config_.pipeline.retains_slices) return 0;
    const double stages = as_double(least_retained_stages(config_, problem_, tables_));
    return std::max(stages * of_input() - retained().waiting, 0.0);
}

double GatheredClocks::cut_factor() const {
    if (config_.tile.w >= tables_.q_count[2]) return 1;
    if (problem_.channels_last()) return model_.cut_channels_last;
    return config_.store.passes_shared_memory() ? model_.cut_warp_rows : model_.cut_rows;
}

/// One warpgroup multiplies while the other one stores.
double GatheredClocks::of_slice() const {
    const double seams = config_.store.way == Store::seamed_rows
                             ? model_.seam * as_double(config_.tile.h * out_stride(problem_)[1] - 1)
                             : 0;
    const double multiply = of_multiplying() + model_.slice + seams, store = of_stores();
    const double longer = std::max(multiply, store), shorter = std::min(multiply, store);
    return cut_factor() * (longer + model_.overlap * shorter * shorter / longer);
}

double GatheredClocks::alone_factor() const {
    if (config_.store.way == Store::bulk_rows) return model_.alone_bulk_rows;
    if (config_.store.way == Store::seamed_rows) return model_.alone_seamed_rows;
    return problem_.channels_last() ? model_.alone_channels_last : model_.alone;
}

/// What CTAs take of the output slices: items, and shares of those that are left over.
struct Shares {
    int64_t ctas, whole_items, share;
};

/// Shares for as many CTAs as there are multiprocessors: whole items as long as there is one for each, and equal shares
/// of the slices of those that are left.
Shares equal_shares(int64_t items, int64_t depth, int64_t multiprocessors, int64_t together) {
    const int64_t whole = depth > 0 ? items / multiprocessors * multiprocessors : 0, rest = (items - whole) * depth;
    if (whole > 0 && rest == 0) return {multiprocessors, whole, 0};
    const int64_t share = std::max(round_up(cuts(rest, multiprocessors), together), together);
    return {whole > 0 ? multiprocessors : std::max<int64_t>(cuts(rest, share), 1), whole, share};
}

/// Shares of whole items only, for the fewest CTAs of which none then has more items.
Shares whole_shares(int64_t items, int64_t multiprocessors) {
    return {cuts(items, cuts(items, multiprocessors)), items, 0};
}

/// Sets what CTAs take, such that products and stores take the least clocks, and sets these clocks. CTAs with whole
/// items walk along D side by side, so that what they write of neighbouring rows meets in the L2 cache.
void choose_shares(Config& config, const Problem& problem, const TapTables& tables, const GatheredClocks& of,
                   int64_t multiprocessors) {
    const int64_t items = item_count(problem, tables, config), depth = item_depth(tables, config);
    // Rows that are stored with one another's help are of one CTA.
    const int64_t together = joins_rows(config) ? tables.row_sets() : 1;
    const double slice = of.of_slice(), alone = slice * of.alone_factor();
    const auto clocks = [&](const Shares& shares) {
        return as_double(cuts(shares.whole_items, shares.ctas) * depth) * slice + as_double(shares.share) * alone;
    };
    Shares best = equal_shares(items, depth, multiprocessors, together);
    if (items * depth > 0 && clocks(whole_shares(items, multiprocessors)) < clocks(best))
        best = whole_shares(items, multiprocessors);
    config.schedule = {best.ctas, best.whole_items, best.share, clocks(best)};
}

} // namespace

int64_t least_retained_stages(const Config& config, const Problem& problem, const TapTables& tables) {
    return (tables.halo(0) + 1) * tables.depth.planes * chunks(problem, config);
}

void estimate_gathered(Config& config, const Problem& problem, const TapTables& tables, int multiprocessors,
                       const GatheredModel& model) {
    const GatheredClocks clocks(config, problem, tables, model);
    choose_shares(config, problem, tables, clocks, multiprocessors);
    config.schedule.clocks +=
        model.launch + clocks.of_first() + model.packed_byte * as_double(packed_words(problem, tables, config) * 4);
}

} // namespace tconv3d::cuda::tensorcore
