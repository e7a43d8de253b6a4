#include "cuda/tensorcore/gathered/tiles.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/tensorcore/gathered/cost.hpp"
#include "cuda/tensorcore/staging.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

constexpr int64_t kMostColumns = 256;  // of a wgmma
constexpr int64_t kMostBox = 256;      // elements of a TMA box along a dimension
constexpr int64_t kMostUnrolled = 230; // products of a stage

/// Registers of a thread for accumulators: beside them it needs the offsets of what it stores.
int64_t most_accumulators(const Problem& problem, const Config& config) {
    if (config.has_rearrangers()) return 96; // they are read at once, of the 128 registers that 512 threads start with
    if (config.input.source == Source::global || config.store.way == Store::voxels) return 120;
    if (problem.channels_last()) return is_16_bit(problem) ? 136 : 128;
    if (!is_16_bit(problem)) return 160;
    return config.store.passes_shared_memory() ? 152 : 144;
}

/// In NCDHW a lane has the outputs of two positions, of which rows are multiples, or rows pass through shared memory. A
/// kernel for any size cannot know which positions are a row, and stores one by one.
Store choose_store(const Problem& problem, Sizes sizes) {
    if (problem.channels_last()) return Store::channels;
    if (out_extents(problem)[2] % (2 * out_stride(problem)[2]) == 0) return Store::pairs;
    return sizes == Sizes::any ? Store::voxels : Store::warp_rows;
}

/// Sets the bytes between the rows of 8 channels in shared memory: the vectors of four lanes lie in other banks than
/// those of the next channel.
void set_store_bytes(Config& config, const Problem& problem) {
    OutputStore& store = config.store;
    store.channel_bytes = 0;
    if (!store.passes_shared_memory()) return;
    const Extents stride = out_stride(problem);
    const int64_t element = bytes_per_element(problem.dtype);
    if (store.way == Store::bulk_rows) {
        // A range begins as far behind a multiple of 16 bytes as in the output; at its end 16 bytes are loaded that it
        // may not have.
        const int64_t row = out_extents(problem)[2] * element;
        store.channel_bytes = round_up(config.tile.h * stride[1] * row, 128) + 32;
        return;
    }
    const int64_t vector = 2 * stride[2] * element;
    store.channel_bytes = round_up(cuts(config.tile.w, 2) * vector, 128) + 4 * vector;
}

/// Whether rows of the output meet within sectors, no more than two in each.
bool has_seams(const Config& config, const Problem& problem, const TapTables& tables) {
    constexpr int64_t kSector = 32;
    return config.store.way == Store::warp_rows && config.tile.w >= tables.q_count[2] &&
           config.tile.h * out_stride(problem)[1] > 1 &&
           out_extents(problem)[2] * bytes_per_element(problem.dtype) >= kSector;
}

/// Whether the rows of all phases along H can be sent as one range. Each consumer stages those of one phase: with more
/// phases, one could wait for a stage that only its own next output slice completes.
bool has_ranges(const Problem& problem, const TapTables& tables) {
    return is_16_bit(problem) && tables.row_sets() == kConsumers;
}

/// Positions whose outputs a lane stores at once, of which rows are multiples.
int64_t positions_at_once(const Config& config) {
    return config.store.way == Store::quads ? 4 : config.store.way == Store::voxels ? 1 : 2;
}

/// Positions from a row to the next. Right of a row are as many zeros as the taps read; where rows are whole, those
/// left of the next one serve.
int64_t pitch_of(const Config& config, const Problem& problem, const TapTables& tables) {
    const int64_t end = tables.q_count[2] + tables.shift_max[2], left = tables.shift_min[2];
    if (config.plane.tail == 0) return config.tile.w + tables.halo(2);
    const int64_t columns = cuts(in_extents(problem)[2], in_stride(problem)[2]); // of the longest input plane
    return std::max({tables.q_count[2], end, std::min(columns, end) - left});
}

/// Has lanes exchange their vectors of two voxels for vectors of four, where two voxels are 4 bytes and rows are
/// multiples of four, or the tile is one long row.
void set_vectors(Config& config, const Problem& problem) {
    const Extents out = out_extents(problem);
    const TileShape& tile = config.tile;
    const bool long_row = is_contiguous(problem, config) && tile.h * out[2] % 4 == 0 && out[1] * out[2] % 4 == 0;
    const bool rows = out[2] % 4 == 0 && (tile.w % 4 == 0 || tile.w >= out[2]);
    if (config.store.way == Store::pairs && is_16_bit(problem) && out_stride(problem)[2] == 1 &&
        !config.plane.interleaved && (long_row || rows))
        config.store.way = Store::quads;
    if (!long_row) config.plane.pitch = round_up(config.plane.pitch, positions_at_once(config));
}

/// Sets the staged plane; false where TMA does not take it, or 32 bits do not count its output slices.
bool set_plane(Config& config, const Problem& problem, const TapTables& tables) {
    constexpr int64_t kMostSlices = int64_t{1} << 30;
    StagedPlane& plane = config.plane;
    const bool whole_rows = config.tile.w >= tables.q_count[2] && !plane.interleaved;
    plane.tail = whole_rows ? std::max<int64_t>(-tables.shift_min[2], 0) : 0;
    plane.pitch = pitch_of(config, problem, tables);
    set_vectors(config, problem);
    plane.rows = config.tile.h + tables.halo(1);
    if (config.tile.images > 1 && !has_channel_planes(problem) && !plane.interleaved) {
        while (plane.rows * plane.pitch % 8 != 0) ++plane.rows;
    }
    return fits_box(config, tables) && item_count(problem, tables, config) * item_depth(tables, config) < kMostSlices;
}

/// Cuts the positions into products; false where they do not fit.
bool set_products(Config& config, const Problem& problem, const TapTables& tables) {
    ProductTiles& products = config.products;
    StagedPlane& plane = config.plane;
    const int64_t span = config.span();
    products.m_tiles = cuts(span, kMostColumns);
    products.columns = round_up(cuts(span, products.m_tiles), std::max<int64_t>(4 * positions_at_once(config), 8));
    const int64_t cores = products.m_tiles * products.columns / 8;
    const int64_t loaded = config.tile.images * plane.rows * plane.pitch + plane.tail;
    const int64_t last = (cores - 1) * config.core_stride() + 8;
    set_positions(config, tables, loaded, last + tables.halo(1) * config.row_pitch() + tables.halo(2));
    const int64_t unrolled = tables.plane.pass_count() * tables.plane.products() * products.m_tiles;
    return accumulator_registers(tables, config) <= most_accumulators(problem, config) && unrolled <= kMostUnrolled;
}

/// Goes through all configs of a problem.
class GatheredConfigs {
public:
    GatheredConfigs(const Problem& problem, const TapTables& tables, const Device& device, const KeepConfig& keep)
        : problem_(problem), tables_(tables), device_(device), keep_(keep) {}

    /// Rows of one image, whole or cut; or several whole images.
    void consider_rows(Config config) const;
    /// Rows of 8 positions, a core matrix each, those of all images in turn.
    void consider_interleaved(Config config) const;

private:
    /// Each has a position, and an accumulator for it, in each of its rows.
    int64_t most_images() const {
        constexpr int64_t kMostAccumulators = 2 * 160;
        return std::min(problem_.batch, kMostAccumulators + 1);
    }
    void consider_retained(Config config) const;
    void consider_stored(Config config) const;
    void consider(Config config) const;

    const Problem& problem_;
    const TapTables& tables_;
    const Device& device_;
    const KeepConfig& keep_;
};

/// Retains the input slices in stages: those that an output slice may read, or another one that comes meanwhile. Few
/// come, and one buffer for them may do. Of all such ways, the one with the least estimated clocks.
void GatheredConfigs::consider_retained(Config config) const {
    constexpr int64_t kMostStages = 16; // which there are barriers for
    const int64_t least = least_retained_stages(config, problem_, tables_), most_raw = config.input.raw_stages;
    // With phases along H in turn, several groups took longer than fewer k steps.
    const int64_t most_groups = tables_.row_sets() > 1 ? 1 : tables_.plane.products();
    Config best{};
    config.pipeline.retains_slices = true;
    int64_t& groups = config.products.tap_groups;
    for (config.input.raw_stages = 1; config.input.raw_stages <= most_raw; ++config.input.raw_stages) {
        for (const int64_t more : {int64_t{0}, chunks(problem_, config)}) {
            config.pipeline.stages = least + more;
            if (config.pipeline.stages > kMostStages) break;
            for (groups = 1; groups <= most_groups; groups += cuts(groups, 2)) {
                if (!set_weight_stages(config, problem_, tables_, device_.shared_memory_per_block)) continue;
                estimate_gathered(config, problem_, tables_, device_.multiprocessors);
                if (best.schedule.clocks <= 0 || config.schedule.clocks < best.schedule.clocks) best = config;
            }
        }
    }
    if (best.schedule.clocks > 0) keep_(best);
}

/// Tries what follows from the tile and the way of storing.
void GatheredConfigs::consider_stored(Config config) const {
    const Extents out = out_extents(problem_);
    const int64_t images = config.tile.images;
    if (images > 1 && (problem_.groups > 1 || config.store.passes_shared_memory())) return;
    if (images > 1 && images * all_out_channels(problem_) * out[0] * out[1] * out[2] >= int64_t{1} << 31) return;
    set_store_bytes(config, problem_);
    set_boxes(config, problem_, tables_);
    if (needs_registers_to_rearrange(config)) return;
    const Source source = config.input.source;
    if (config.plane.interleaved && (source == Source::rows || source == Source::whole_rows)) return;
    if (!set_plane(config, problem_, tables_) || !set_products(config, problem_, tables_)) return;
    const int64_t all_steps = cuts(in_channels(problem_), channel_step(problem_));
    int64_t& steps = config.input.steps;
    for (steps = 1; steps <= std::min<int64_t>(4, all_steps); steps *= 2) {
        if (all_steps % steps != 0 || !set_raw(config, problem_, tables_)) return;
        consider_retained(config);
        if (!set_stages(config, problem_, tables_, device_.shared_memory_per_block)) continue;
        estimate_gathered(config, problem_, tables_, device_.multiprocessors);
        keep_(config);
    }
}

/// Cleared seams and ranges are worth it where storing takes longer than the products.
void GatheredConfigs::consider(Config config) const {
    consider_stored(config);
    if (!has_seams(config, problem_, tables_)) return;
    config.store.way = has_ranges(problem_, tables_) ? Store::bulk_rows : Store::seamed_rows;
    consider_stored(config);
}

void GatheredConfigs::consider_rows(Config config) const {
    const int64_t rows = tables_.q_count[1], columns = tables_.q_count[2];
    TileShape& tile = config.tile;
    for (int64_t cut = 1; cut <= 4; ++cut) {
        tile.w = cut == 1 ? columns : round_up(cuts(columns, cut), 4);
        if (cuts(columns, tile.w) != cut) continue;
        tile.images = 1;
        for (tile.h = 1; tile.h <= std::min(rows, kMostBox); ++tile.h) {
            // Heights that divide the rows equally, as far as may be.
            if (cuts(rows, cuts(rows, tile.h)) == tile.h) consider(config);
        }
        if (cut > 1) continue;
        tile.h = rows;
        for (tile.images = 2; tile.images <= most_images(); ++tile.images) consider(config);
    }
}

void GatheredConfigs::consider_interleaved(Config config) const {
    if (tables_.q_count[2] > 8 || config.store.passes_shared_memory()) return;
    config.plane.interleaved = true;
    config.plane.blocks_w = 1;
    config.tile.w = 8;
    config.tile.h = tables_.q_count[1];
    int64_t& images = config.tile.images;
    for (images = 1; images <= most_images(); ++images) consider(config);
}

} // namespace

std::string reject_gathered(const Problem& problem, const TapTables& tables) {
    if (parts(problem) > 1) return "takes f32 where tf32 is allowed, got f32 in full";
    if (out_stride(problem)[2] > 2) return "takes strides 1 and 2 along w, got stride " + str(problem.stride);
    if (tables.plane.row_phases > 1) return "every phase along h needs taps, got kernel " + str(problem.kernel);
    return "";
}

bool is_contiguous(const Problem& problem, const Config& config) {
    const Extents stride = out_stride(problem);
    const StagedPlane& plane = config.plane;
    return !config.any_size() && !problem.channels_last() && stride[1] == 1 && stride[2] == 1 &&
           config.tile.images == 1 && !plane.interleaved && plane.pitch == out_extents(problem)[2] &&
           config.tile.w == plane.pitch && plane.pitch % 2 == 0;
}

void each_gathered_config(const Problem& problem, const TapTables& tables, const Device& device, const KeepConfig& keep,
                          Sizes sizes) {
    if (!reject_gathered(problem, tables).empty()) return;
    Config config{};
    config.form = Form::gathered;
    config.engine = Engine::wgmma;
    config.sizes = sizes;
    config.input.source = choose_source(problem, config.engine);
    config.store.way = choose_store(problem, sizes);
    // Rows of channel planes are de-interleaved by constant distances, ranges are not.
    if (config.any_size() && config.input.scatters_elements(problem)) config.input.source = Source::global;
    config.tile.slices = 1;
    config.tile.channels = 64;
    config.products.warpgroups = kConsumers; // which alternate
    const GatheredConfigs configs(problem, tables, device, keep);
    for (const int64_t warps : rearranging_warps(problem, config)) {
        config.input.warps = warps;
        configs.consider_rows(config);
        if (sizes == Sizes::one) configs.consider_interleaved(config);
    }
}

} // namespace tconv3d::cuda::tensorcore
