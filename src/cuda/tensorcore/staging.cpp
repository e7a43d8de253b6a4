#include "cuda/tensorcore/staging.hpp"

#include <algorithm>
#include <vector>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/tensorcore/tensor_map.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

constexpr int64_t kMostStages = 4;
constexpr int64_t kMostWeightStages = 8;
constexpr int64_t kMostBox = 256; // elements of a TMA box along a dimension
constexpr int64_t kMostStep = 8;  // from an element that TMA copies to the next one

/// The most taps that add to the same accumulators, in any of that many tap groups.
int64_t most_taps_of_an_accumulator(const PlaneTables& plane, int64_t groups) {
    const std::vector<TapGroup>& begins = plane.tap_groups(groups);
    std::vector<int64_t> taps;
    int64_t most = 0, product = 0;
    size_t group = 0;
    for (const PlaneShift& shift : plane.shifts) {
        for (const Product& next : shift.products) {
            if (product++ == begins[group].first_product) {
                taps.assign(static_cast<size_t>(plane.accumulators), 0);
                ++group;
            }
            // The taps of a product add to accumulators of their own, which all products with the same first one have.
            most = std::max(most, ++taps[static_cast<size_t>(next.first)]);
        }
    }
    return most;
}

/// The most taps, or k steps of one tap, whose products are summed before they are rounded, where fp32 is split.
constexpr int64_t kMostSummed = 3;

int64_t least_tap_groups(const Problem& problem, const PlaneTables& plane) {
    int64_t groups = 1;
    while (parts(problem) == 2 && most_taps_of_an_accumulator(plane, groups) > kMostSummed) ++groups;
    return groups;
}

/// Sets how many k steps are summed before they are rounded: as many as the taps of a tap group allow.
void set_summed_steps(Config& config, const Problem& problem, const PlaneTables& plane) {
    int64_t& steps = config.products.summed_steps;
    steps = config.input.steps;
    const int64_t taps = parts(problem) == 2 ? most_taps_of_an_accumulator(plane, config.products.tap_groups) : 0;
    while (steps > 1 && taps * steps > kMostSummed) steps /= 2;
}

/// Shared memory beside the stages.
int64_t fixed_bytes(const Config& config, const TapTables& tables) {
    constexpr int64_t kBarriers = 1024;
    return kBarriers + PipelineStages::kOverread + config.input.raw_stages * config.input.raw_bytes +
           config.input.table_bytes + config.store_bytes() + vector_offset_bytes(config, tables);
}

int64_t input_stage_bytes(const Config& config, const Problem& problem) {
    return parts(problem) * 2 * config.input.steps * config.plane.positions * 16;
}

/// Bytes of the weights of the largest of that many tap groups.
int64_t weight_group_bytes(const Config& config, const Problem& problem, const TapTables& tables, int64_t groups) {
    const std::vector<TapGroup>& begins = tables.plane.tap_groups(groups);
    int64_t most = 0;
    for (size_t i = 0; i + 1 < begins.size(); ++i) most = std::max(most, begins[i + 1].first_tap - begins[i].first_tap);
    return most * config.input.steps * parts(problem) * tables.depth.slots * config.tile.channels * 32;
}

/// Whether planes come whole: small ones, all of which the tile has. Their rows are short, and TMA takes its time for
/// each.
bool takes_whole_planes(const Config& config, const Problem& problem, const TapTables& tables) {
    const Extents in = in_extents(problem);
    const int64_t plane = in[1] * in[2];
    return config.engine == Engine::wgmma && has_channel_planes(problem) && config.tile.h >= tables.q_count[1] &&
           config.tile.w >= tables.q_count[2] && plane <= kMostBox &&
           plane * bytes_per_element(problem.dtype) % 16 == 0;
}

/// Whether rows come as ranges: whole rows whose length is no multiple of 16 bytes. Those of a tile are contiguous in
/// each channel. Ranges count images, not slices.
bool takes_ranges(const Config& config, const Problem& problem, const TapTables& tables) {
    return config.engine == Engine::wgmma && has_channel_planes(problem) && config.input.source == Source::global &&
           config.tile.slices == 1 && config.tile.w >= tables.q_count[2];
}

/// Shared memory for where the elements of a stage belong, if warps rearrange them one by one.
int64_t table_bytes(const Config& config, const Problem& problem, const TapTables& tables) {
    const InputStaging& input = config.input;
    const bool ranges = input.source == Source::ranges;
    if (!ranges && (is_16_bit(problem) || !input.scatters_elements(problem))) return 0;
    const int64_t columns =
        input.has_whole_rows() ? in_extents(problem)[2] : tables.inputs[2].reach(config.plane.pitch);
    return element_table_bytes(static_cast<int>(ranges ? 1 : config.tile.images), static_cast<int>(input.box_rows),
                               static_cast<int>(columns));
}

} // namespace

/// Where warps de-interleave rows, eight neighbours of a row go to all input planes along W. These begin such that the
/// eight fall into different banks, which eight positions fill.
void set_positions(Config& config, const TapTables& tables, int64_t loaded, int64_t read) {
    StagedPlane& plane = config.plane;
    const int64_t planes_w = tables.inputs[2].count();
    const bool apart = planes_w > 1 && 8 % planes_w == 0 && config.input.takes_rows();
    plane.plane_pitch = round_up(loaded - (apart ? 8 / planes_w : 0), 8) + (apart ? 8 / planes_w : 0);
    plane.positions = round_up((tables.staged_planes() - 1) * plane.plane_pitch + std::max(loaded, read), 8);
}

Source choose_source(const Problem& problem, Engine engine) {
    const int64_t row = has_channel_planes(problem) ? in_extents(problem)[2] : in_channels(problem);
    const bool copied = engine == Engine::wgmma && row * bytes_per_element(problem.dtype) % 16 == 0;
    if (!copied) return Source::global;
    if (has_channel_planes(problem)) return Source::rows;
    if (std::max(in_stride(problem)[1], in_stride(problem)[2]) > kMostStep) return Source::global;
    return parts(problem) == 2 ? Source::core_matrices : Source::swizzled;
}

std::vector<int64_t> rearranging_warps(const Problem& problem, const Config& config) {
    const bool more = !is_fwd(problem) && config.engine == Engine::wgmma && config.input.source != Source::swizzled;
    if (!more) return {kProducerRearrangers};
    // The first of equal estimates counts: with the same tile more were faster even where they are not the limit.
    return {kProducerRearrangers + 4, kProducerRearrangers};
}

bool needs_registers_to_rearrange(const Config& config) {
    return config.has_rearrangers() && config.input.source == Source::global;
}

void set_boxes(Config& config, const Problem& problem, const TapTables& tables) {
    InputStaging& input = config.input;
    input.box_rows = 1;
    input.boxes = 1;
    if (!config.any_size() && takes_whole_planes(config, problem, tables)) {
        input.source = Source::whole_planes;
        input.box_rows = in_extents(problem)[1];
    } else if (takes_ranges(config, problem, tables)) {
        input.source = Source::ranges;
    } else if (!config.any_size() && config.gathered() && input.source == Source::rows &&
               config.tile.w >= tables.q_count[2] && in_stride(problem)[1] == 1 && in_stride(problem)[2] == 1) {
        constexpr int64_t kFewRows = 5; // as many single ones take no longer
        const int64_t most = (kMostBox - 16 / bytes_per_element(problem.dtype)) / in_extents(problem)[2];
        if (most < kFewRows) return;
        const int64_t rows = config.tile.h + tables.halo(1);
        input.source = Source::whole_rows;
        input.boxes = cuts(rows, most);
        input.box_rows = cuts(rows, input.boxes);
    }
}

bool fits_box(const Config& config, const TapTables& tables) {
    const bool copied = config.input.has_map();
    return config.plane.rows * (copied ? tables.inputs[1].stride : 1) <= kMostBox &&
           config.plane.pitch * (copied ? tables.inputs[2].stride : 1) <= kMostBox;
}

int64_t stored_voxels(const Config& config) {
    if (config.store.way == Store::quads) return 4;
    return config.store.way == Store::pairs ? 2 : 1;
}

bool set_streamed_plane(Config& config, const TapTables& tables) {
    const TileShape& tile = config.tile;
    StagedPlane& plane = config.plane;
    const int64_t together = stored_voxels(config);
    if (tile.w % together != 0 && tile.w < tables.q_count[2]) return false;
    plane.pitch = round_up((plane.blocks_w > 0 ? plane.blocks_w * 8 : tile.w) + tables.halo(2), together);
    plane.rows = (plane.blocks_h > 0 ? plane.blocks_h * 8 : tile.h) + tables.halo(1);
    if (tile.images > 1 && !config.input.has_planes()) {
        while (plane.rows * plane.pitch % 8 != 0) ++plane.rows;
    }
    const int64_t tiles = plane.blocks_w > 0 ? tile.images * plane.blocks_h * plane.blocks_w : cuts(config.span(), 64);
    ProductTiles& products = config.products;
    products.warpgroups = cuts(tiles, products.m_tiles);
    const int64_t last = plane.blocks_w > 0 ? (tile.images * plane.rows - tables.halo(1)) * plane.pitch
                                            : products.m_tiles * products.warpgroups * 64 + 1;
    const int64_t reach = tables.halo(1) * plane.pitch + tables.halo(2);
    set_positions(config, tables, tile.images * plane.rows * plane.pitch, last + reach);
    return fits_box(config, tables);
}

bool set_raw(Config& config, const Problem& problem, const TapTables& tables) {
    const int64_t align = 16 / bytes_per_element(problem.dtype);
    InputStaging& input = config.input;
    input.raw_pitch = 0;
    input.raw_bytes = 0;
    input.raw_stages = 1;
    input.table_bytes = 0;
    if (input.has_planes()) {
        const bool rows = input.source == Source::rows;
        if (rows) input.box_rows = tables.inputs[1].reach(config.plane.rows);
        const int64_t row =
            rows ? tables.inputs[2].reach(config.plane.pitch) + align - 1 : input.box_rows * in_extents(problem)[2];
        input.raw_pitch = round_up(row, align);
        // Eight channels are loaded at once in 16 bits: an odd multiple of 16 bytes puts them into different banks.
        const bool even = input.raw_pitch / align % 2 == 0;
        if (is_16_bit(problem) && even && input.raw_pitch + align <= kMostBox) input.raw_pitch += align;
        input.raw_bytes = round_up(box_bytes(problem, config), 128);
        input.raw_stages = 2;
        input.table_bytes = table_bytes(config, problem, tables);
    } else if (input.source == Source::ranges) {
        input.box_rows = tables.inputs[1].reach(config.plane.rows);
        const int64_t zeros = align; // which stand for what lies outside of the input
        input.raw_pitch = round_up(input.box_rows * in_extents(problem)[2] + align - 1, align) + zeros;
        input.raw_bytes = round_up(config.tile.images * input.steps * channel_step(problem) * input.raw_pitch *
                                       bytes_per_element(problem.dtype),
                                   128);
        input.raw_stages = 2;
        input.table_bytes = table_bytes(config, problem, tables);
        return true;
    } else if (input.source == Source::core_matrices) {
        input.raw_bytes = 2 * input.steps * config.plane.positions * 16;
        input.raw_stages = 2;
    }
    return input.raw_pitch <= kMostBox;
}

bool set_own_weights(Config& config, const Problem& problem, const TapTables& tables, int64_t shared_limit) {
    constexpr int64_t kMostTaps = 16;   // which are written out in the code
    if (!is_fwd(problem)) return false; // its squares of the weight are those of fwd
    // Weights move in vectors of 16 bytes, of taps or of channels; two of them fill a sector.
    const int64_t vector = 16 / bytes_per_element(problem.dtype), taps = problem.taps();
    if (problem.channels_last() && config.tile.channels < 16) return false;
    if (taps % vector != 0 || taps > kMostTaps || out_channels(problem) % vector != 0) return false;
    if (tables.depth.rotations > 1 || tables.plane.pass_count() > 1 || least_tap_groups(problem, tables.plane) > 1)
        return false;
    PipelineStages& pipeline = config.pipeline;
    pipeline.stage_bytes = input_stage_bytes(config, problem);
    config.products.tap_groups = 1;
    set_summed_steps(config, problem, tables.plane);
    config.weights.stages = chunks(problem, config);
    config.weights.stage_bytes = weight_group_bytes(config, problem, tables, 1);
    const int64_t fixed = fixed_bytes(config, tables) + config.weights.stages * config.weights.stage_bytes;
    pipeline.stages = std::min((shared_limit - fixed) / pipeline.stage_bytes, kMostStages);
    pipeline.shared_bytes = fixed + pipeline.stages * pipeline.stage_bytes;
    return pipeline.stages >= 2;
}

bool set_weight_stages(Config& config, const Problem& problem, const TapTables& tables, int64_t shared_limit) {
    PipelineStages& pipeline = config.pipeline;
    WeightStaging& weights = config.weights;
    pipeline.stage_bytes = input_stage_bytes(config, problem);
    weights.stage_bytes = weight_group_bytes(config, problem, tables, config.products.tap_groups);
    const int64_t used = fixed_bytes(config, tables) + pipeline.stages * pipeline.stage_bytes;
    if (weights.stage_bytes <= 0 || shared_limit - used < 3 * weights.stage_bytes) return false;
    set_summed_steps(config, problem, tables.plane);
    weights.stages = std::min((shared_limit - used) / weights.stage_bytes, kMostWeightStages);
    pipeline.shared_bytes = used + weights.stages * weights.stage_bytes;
    return true;
}

bool set_stages(Config& config, const Problem& problem, const TapTables& tables, int64_t shared_limit) {
    PipelineStages& pipeline = config.pipeline;
    int64_t& groups = config.products.tap_groups;
    for (pipeline.stages = 3; pipeline.stages >= 2; --pipeline.stages) {
        for (groups = least_tap_groups(problem, tables.plane); groups <= tables.plane.products();
             groups += cuts(groups, 2)) {
            if (!set_weight_stages(config, problem, tables, shared_limit)) continue;
            while (pipeline.stages < kMostStages && pipeline.shared_bytes + pipeline.stage_bytes <= shared_limit) {
                ++pipeline.stages;
                pipeline.shared_bytes += pipeline.stage_bytes;
            }
            return true;
        }
    }
    return false;
}

bool set_bulk_rows(Config& config, const Problem& problem, const TapTables& tables) {
    constexpr int64_t kMostBytes = 100 << 10, kWarps = kConsumers * 4;
    const TileShape& tile = config.tile;
    OutputStore& store = config.store;
    const int64_t row = out_extents(problem)[2] * bytes_per_element(problem.dtype);
    const bool whole_rows = tables.row_sets() == 1 && tile.images == 1 && tile.w >= tables.q_count[2] && row >= 32;
    if (config.any_size() || has_aligned_rows(problem) || config.engine != Engine::wgmma || !whole_rows) return false;
    if (config.products.warpgroups < kConsumers) return false; // they store together
    store.way = Store::bulk_rows;
    // Rows lie up to 15 bytes behind the start of a channel's bytes, and the channels of a buffer in other banks.
    store.channel_bytes = round_up(tile.h * out_stride(problem)[1] * row + 15, 128) + 32;
    const int64_t columns = tile.channels / 4;
    store.columns = std::min(columns, kWarps);
    while (columns % store.columns != 0 || config.store_bytes() > kMostBytes) {
        if (--store.columns == 0) return false;
    }
    return true;
}

int64_t vector_offset_bytes(const Config& config, const TapTables& tables) {
    constexpr int64_t kOffsetBytes = 8;
    if (!config.gathered() || config.store.passes_shared_memory()) return 0;
    const int64_t positions = config.products.m_tiles * config.products.columns;
    return kConsumers * tables.row_sets() * (config.store.way == Store::voxels ? positions : positions / 2) *
           kOffsetBytes;
}

} // namespace tconv3d::cuda::tensorcore
