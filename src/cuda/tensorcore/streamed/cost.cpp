#include "cuda/tensorcore/streamed/cost.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "core/direction.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

double as_double(int64_t value) {
    return static_cast<double>(value);
}

InputCost input_cost(const Config& config, const Problem& problem, const StreamedModel& model) {
    switch (config.input.source) {
    case Source::swizzled:
        return model.input.swizzled;
    case Source::global:
        return model.input.global;
    case Source::core_matrices:
        return model.input.core_matrices;
    case Source::ranges:
        return is_16_bit(problem) ? model.input.half_ranges : model.input.ranges;
    case Source::rows:
    case Source::whole_rows:
    case Source::whole_planes:
        break;
    }
    const bool whole = config.input.source == Source::whole_planes;
    InputCost cost = is_16_bit(problem)    ? model.input.halves
                     : parts(problem) == 2 ? model.input.split
                     : whole               ? model.input.tf32_planes
                                           : model.input.tf32_rows;
    if (whole) cost.raw_row = 0;
    if (!is_16_bit(problem) && config.input.scatters_elements(problem)) cost.core_row *= model.input.apart;
    return cost;
}

/// The tensor cores' clocks of one stage, of a work item with that many passes.
double product_clocks(const Config& config, const Problem& problem, const TapTables& tables, double passes,
                      const ProductCost& cost) {
    const double tiles = passes * as_double(config.products.m_tiles * config.products.warpgroups * config.input.steps *
                                            part_products(problem));
    const double columns = as_double(tables.depth.slots * config.tile.channels);
    const double factor = (parts(problem) == 2 ? cost.split : 1) * (config.engine == Engine::wgmma ? 1 : cost.mma);
    double clocks = 0;
    for (const PlaneShift& shift : tables.plane.shifts) {
        for (const Product& product : shift.products) {
            const double n = as_double(product.count) * columns;
            // Multiplying, or reading the operands from shared memory.
            clocks += std::max(cost.column * n, cost.operand + cost.operand_column * n) * tiles * factor;
        }
    }
    return clocks;
}

/// Clocks of one stage on one multiprocessor, of a work item with that many passes. Tensor cores, what brings the
/// input, by warps or by TMA, and all copies run side by side, and bringing the input keeps shared memory from the
/// others. What is waited for is hidden by more buffers.
double stage_clocks(const Config& config, const Problem& problem, const TapTables& tables, double passes,
                    const StreamedModel& model) {
    const ProductCost& product = model.product;
    const InputCost input = input_cost(config, problem, model);
    const bool split = parts(problem) == 2, own = config.packs_own_weights();
    const int64_t steps = config.input.steps;
    const double tensor = product_clocks(config, problem, tables, passes, product);
    const double cores = input.core_row * (config.has_rearrangers() ? model.input.more_warps : 1) *
                         as_double(tables.staged_planes() * config.tile.images * config.plane.rows *
                                   config.plane.pitch * filled_cores(problem, config));
    const double columns = as_double(tables.depth.slots * config.tile.channels);
    const double weights = passes * as_double(steps * parts(problem) * tables.plane.taps()) * columns * 32;
    const double raw_rows =
        as_double(config.tile.images * steps * channel_step(problem) * tables.inputs[1].reach(config.plane.rows));
    const double copied = (as_double(config.pipeline.stage_bytes) + (own ? 0 : weights)) / product.bytes_per_clock +
                          input.raw_row * raw_rows;
    const double buffers =
        own ? 0 : (split ? product.split_buffer : product.buffer) / as_double(config.weights.stages - 1);
    const double group_wait =
        (split ? 0 : product.group) + buffers + (split ? product.split_step : product.group_step) * as_double(steps);
    return std::max({tensor, cores, copied}) + input.lost * cores + input.wait +
           group_wait * passes * as_double(config.products.tap_groups);
}

/// How much longer stores take than those of 16 bytes that a lane has side by side. Where channels are planes, the
/// eight voxels of a core matrix fill whole sectors where rows and core matrices begin on them; the rest of a sector
/// comes with the next core matrix, in flat tiles at once, in blocks and where rows are cut within a sector much later.
/// Rows between those of a work item come at another time too, which the L2 cache bridges for a small output, and the
/// products of split fp32 hide.
double store_factor(const Config& config, const Problem& problem, const TapTables& tables, const StoreCost& cost) {
    const int64_t element = bytes_per_element(problem.dtype);
    if (problem.channels_last())
        return cost.channels + cost.channel_bytes / as_double(lane_channels(problem, config) * element);
    if (config.store.way == Store::bulk_rows) return cost.bulk_rows;
    constexpr int64_t kSmall = 40 << 20;
    const bool large = out_elements(problem) * element > kSmall;
    const double apart = large && tables.row_sets() > 1 && parts(problem) == 1 ? cost.rows_apart : 1;
    if (!has_aligned_rows(problem)) return cost.unaligned * apart;
    const int64_t voxel = out_stride(problem)[2] * element, eight = 8 * voxel;
    const bool aligned = out_extents(problem)[2] * element % 32 == 0;
    if (config.plane.blocks_w > 0)
        return apart * (aligned && eight % 32 == 0 ? 1 + cost.block_bytes / as_double(eight) : cost.unaligned);
    if (aligned && config.tile.w < tables.q_count[2] && config.tile.w * voxel % 32 != 0) return cost.cut_rows * apart;
    return apart * (aligned && eight % 32 == 0 && config.plane.pitch % 8 != 0 ? cost.odd_pitch : 1);
}

/// Clocks that the outputs of one input slice take.
double store_clocks(const Config& config, const Problem& problem, const TapTables& tables, const StoreCost& cost) {
    const double bytes = as_double(bytes_per_element(problem.dtype));
    const bool bulk = config.store.way == Store::bulk_rows;
    const TileShape& tile = config.tile;
    const Extents stride = out_stride(problem);
    const double contiguous = bytes * as_double(problem.channels_last() ? tile.channels : tile.w * stride[2]) *
                              as_double(bulk ? tile.h * stride[1] : 1);
    const double outputs =
        as_double(tile.images * tile.channels * tile.h * tile.w * stride[0] * tables.plane.row_phases * stride[2]);
    const int64_t buffers = bulk ? stride[0] * tile.channels / 4 / config.store.columns : 0;
    // What is contiguous begins and ends within 32-byte sectors.
    const double per_output =
        bytes * (1 + 32 / contiguous) * store_factor(config, problem, tables, cost) / cost.bytes_per_clock +
        (bulk ? 0 : cost.output);
    return outputs * per_output + as_double(buffers) * cost.barrier;
}

/// Clocks of work items, whole or in shares.
class ItemClocks {
public:
    ItemClocks(const Config& config, const Problem& problem, const TapTables& tables, double passes,
               const StreamedModel& model)
        : depth_(item_depth(tables, config)),
          in_depth_(cuts(in_extents(problem)[0] / config.tile.slices, in_stride(problem)[0])),
          shift_min_(tables.shift_min[0]), shift_max_(tables.shift_max[0]),
          per_slice_(stage_clocks(config, problem, tables, passes, model) *
                     as_double(chunks(problem, config) * tables.depth.planes)),
          stores_(store_clocks(config, problem, tables, model.store)), overlap_(model.overlap) {}

    double of_whole() const { return of(slices(0, depth_), depth_); }

    /// The longest of shares of that many slices q, of items one behind the other.
    double of_share(int64_t share, int64_t shares) const {
        int64_t most = 0;
        for (int64_t i = 0; i < std::min(shares, depth_); ++i) {
            const int64_t begin = i * share % depth_, first = std::min(share, depth_ - begin), rest = share - first;
            most = std::max(most, slices(begin, begin + first) + (rest > 0 ? slices(0, rest) : 0));
        }
        return of(most, share);
    }

private:
    /// Slices of each input plane that a range of q meets, those that open its rings too.
    int64_t slices(int64_t begin, int64_t end) const {
        return std::max<int64_t>(std::min(end + shift_max_, in_depth_) - std::max<int64_t>(begin + shift_min_, 0), 0);
    }

    /// While one warpgroup stores the other may multiply: the longer of the two counts, and a part of the other.
    double of(int64_t slices, int64_t length) const {
        const double multiply = as_double(slices) * per_slice_, store = as_double(length) * stores_;
        return std::max(multiply, store) + overlap_ * std::min(multiply, store);
    }

    int64_t depth_, in_depth_, shift_min_, shift_max_;
    double per_slice_, stores_, overlap_;
};

/// Sets the share with the least clocks: as small as the CTAs allow, or such that shares divide an item. Returns these.
double choose_share(Schedule& schedule, const ItemClocks& clocks, int64_t rest, int64_t depth, int64_t ctas) {
    double least = 0;
    schedule.share = 0;
    const auto consider = [&](int64_t share) {
        const double next = clocks.of_share(share, cuts(rest, share));
        if (schedule.share > 0 && next >= least) return;
        schedule.share = share;
        least = next;
    };
    if (rest == 0) return 0;
    const int64_t smallest = cuts(rest, ctas);
    consider(smallest);
    for (int64_t cut = 1; cuts(depth, cut) > smallest; ++cut) consider(cuts(depth, cut));
    return least;
}

/// What the shape of a tile costs beside all that. Rows that are cut have more sectors that are read twice and written
/// in parts; the same voxels in blocks are a little faster than in rows.
double shape_factor(const Config& config, const Problem& problem, const TapTables& tables, const StreamedModel& model) {
    const bool cut = config.tile.w < tables.q_count[2] && !problem.channels_last();
    const bool could_be_blocks = config.plane.blocks_w == 0 && config.tile.w % 8 == 0 && config.tile.h % 8 == 0;
    const bool has_halo = tables.halo(1) > 0 || tables.halo(2) > 0;
    return (cut ? model.cut_tile : 1) * (could_be_blocks && !has_halo ? model.flat_tile : 1);
}

/// Clocks until the weights are packed, by a kernel of its own or by each CTA for each of its items.
double pack_clocks(const Config& config, const Problem& problem, const TapTables& tables, int64_t waves,
                   const PackCost& cost) {
    const bool last = problem.channels_last();
    if (!config.packs_own_weights())
        return cost.launch +
               (last ? cost.channels_last_byte : cost.byte) * as_double(packed_words(problem, tables, config) * 4);
    const double byte = last                 ? cost.own_byte_channels_last * as_double(bytes_per_element(problem.dtype))
                        : is_16_bit(problem) ? cost.own_byte_16_bit
                                             : cost.own_byte;
    const int64_t bytes = config.weights.stages * config.weights.stage_bytes;
    return as_double(waves + 1) * (cost.wait + byte * as_double(bytes));
}

} // namespace

void estimate_streamed(Config& config, const Problem& problem, const TapTables& tables, int multiprocessors,
                       const StreamedModel& model) {
    const int64_t depth = item_depth(tables, config), items = item_count(problem, tables, config);
    const int64_t waves = items / multiprocessors, rest = (items - waves * multiprocessors) * depth;
    // Items with many passes come first, so that CTAs with several have some of each.
    const ItemClocks clocks(config, problem, tables,
                            waves > 1 ? tables.plane.mean_passes() : tables.plane.most_passes(), model);
    Schedule& schedule = config.schedule;
    const double share = choose_share(schedule, clocks, rest, depth, multiprocessors);
    schedule.whole_items = waves * multiprocessors;
    // Without images there is nothing to share.
    schedule.ctas = waves > 0 ? multiprocessors : rest > 0 ? cuts(rest, schedule.share) : 1;
    const double pack = pack_clocks(config, problem, tables, waves, model.pack);
    schedule.clocks =
        shape_factor(config, problem, tables, model) * (as_double(waves) * clocks.of_whole() + share) + pack;
}

} // namespace tconv3d::cuda::tensorcore
