#include "cuda/tensorcore/streamed/tiles.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/tensorcore/staging.hpp"
#include "cuda/tensorcore/streamed/cost.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

constexpr int64_t kMostColumns = 256; // of a wgmma
constexpr int64_t kMostTiles = 6;
/// Stores that are written out in the code, for each D phase and slot of its ring: more compile for seconds.
constexpr int64_t kMostUnrolledStores = 320;
/// Products of a stage, which are written out too, but for split fp32 those of one pass: more compile for seconds.
constexpr int64_t kMostUnrolledProducts = 230;
constexpr int64_t kMostPackedBytes = int64_t{16} << 20;

/// A consumer thread's registers for accumulators: beside them it needs the offsets and the bias of what it stores, and
/// addresses, more of them for many products. Where fp32 is split it has all accumulators twice.
int64_t most_accumulators(const Problem& problem, const TapTables& tables, const Config& config) {
    const bool split = parts(problem) == 2;
    const int64_t m_tiles = config.products.m_tiles;
    // mma.sync takes its operands from registers too, and none change hands.
    if (config.engine == Engine::mma) return split ? 56 - 16 * m_tiles : 84 - 14 * m_tiles;
    if (split) return config.has_rearrangers() ? 72 : 88;
    if (tables.plane.taps() > 32) return config.has_rearrangers() ? 108 : 140;
    int64_t addresses = (tables.plane.products() > 24 ? 16 : 0) + (problem.channels_last() ? 12 : 0);
    if (config.input.loads_by_addresses(config.sizes)) addresses += 16;
    // Many biases are not loaded before they are needed.
    const int64_t biases = config.tile.channels >= 32 ? 4 : config.tile.channels / 4;
    const int64_t rearrangers = !config.has_rearrangers() ? 0 : config.any_size() ? 48 : 32;
    return 204 - 4 * m_tiles - biases - addresses - rearrangers;
}

Store choose_store(const Problem& problem) {
    if (problem.channels_last()) return Store::channels;
    const int64_t stride = out_stride(problem)[2], width = out_extents(problem)[2];
    if (stride != 1 || !is_16_bit(problem) || width % 2 != 0) return Store::voxels;
    return width % 4 == 0 ? Store::quads : Store::pairs;
}

/// Whether each input slice has output slices to itself.
bool slices_are_alone(const Problem& problem, const TapTables& tables) {
    const auto has_one = [](const Ring& ring) { return ring.length == 1; };
    return tables.shift_min[0] == 0 && tables.shift_max[0] == 0 &&
           std::all_of(tables.depth.rings.begin(), tables.depth.rings.end(), has_one) &&
           out_extents(problem)[0] == out_stride(problem)[0] * in_extents(problem)[0];
}

/// Goes through all configs of a problem.
class StreamedConfigs {
public:
    StreamedConfigs(const Problem& problem, const TapTables& tables, const Device& device, const KeepConfig& keep)
        : problem_(problem), tables_(tables), device_(device), keep_(keep) {}

    void consider_channels(Config config) const;

private:
    /// Flat tiles: m64 tiles follow the positions, across the ends of rows and images.
    void consider_flat(Config config) const;
    /// Blocks: each m64 tile is 8 × 8 voxels.
    void consider_blocks(Config config) const;
    void estimate_and_keep(Config& config) const {
        estimate_streamed(config, problem_, tables_, device_.multiprocessors);
        keep_(config);
    }
    void consider_stored(Config config) const;
    void consider(Config config) const;
    void consider_slices(Config config, int64_t most) const;

    const Problem& problem_;
    const TapTables& tables_;
    const Device& device_;
    const KeepConfig& keep_;
};

/// Tries what follows from the tile and the way of storing.
void StreamedConfigs::consider_stored(Config config) const {
    const int64_t shared_limit = device_.shared_memory_per_block;
    const int64_t all_steps = cuts(in_channels(problem_), channel_step(problem_));
    int64_t& steps = config.input.steps;
    for (steps = 1; steps <= std::min<int64_t>(4, all_steps); steps *= 2) {
        if (all_steps % steps != 0) return;
        if (!set_raw(config, problem_, tables_)) return;
        if (set_own_weights(config, problem_, tables_, shared_limit)) {
            config.weights.packing = Packing::by_cta;
            estimate_and_keep(config);
        }
        config.weights.packing = Packing::every_rotation;
        if (!set_stages(config, problem_, tables_, shared_limit)) return;
        if (packed_words(problem_, tables_, config) * 4 > kMostPackedBytes)
            config.weights.packing = Packing::one_rotation;
        estimate_and_keep(config);
    }
}

/// Tries what follows from the tile.
void StreamedConfigs::consider(Config config) const {
    if (config.tile.images > 1 && problem_.groups > 1) return;
    const Extents out = out_extents(problem_);
    // The kernel counts the outputs of a tile's images in 32 bits.
    if (config.tile.images > 1 &&
        config.tile.images * all_out_channels(problem_) * out[0] * out[1] * out[2] >= int64_t{1} << 31)
        return;
    set_boxes(config, problem_, tables_);
    if (needs_registers_to_rearrange(config)) return;
    if (!set_streamed_plane(config, tables_)) return;
    if (config.products.warpgroups < kConsumers && config.products.m_tiles > 1) return; // two could share these
    consider_stored(config);
    if (set_bulk_rows(config, problem_, tables_)) consider_stored(config);
}

/// Tiles that have several slices instead of several images: as many as fit and divide them all. Where channels are
/// contiguous they are slower: TMA brings each plane of each by itself.
void StreamedConfigs::consider_slices(Config config, int64_t most) const {
    if (config.any_size() || problem_.channels_last() || !slices_are_alone(problem_, tables_)) return;
    const int64_t depth = in_extents(problem_)[0];
    int64_t& slices = config.tile.slices;
    slices = std::min(most, depth);
    while (slices > 1 && depth % slices != 0) --slices;
    config.tile.images = slices;
    if (slices > 1) consider(config);
}

void StreamedConfigs::consider_flat(Config config) const {
    const int64_t room = config.products.m_tiles * kConsumers * 64;
    const int64_t rows = tables_.q_count[1], columns = tables_.q_count[2];
    TileShape& tile = config.tile;
    for (int64_t cut = 1; cut <= std::min<int64_t>(columns, 12); ++cut) {
        tile.images = 1;
        tile.w = round_up(cuts(columns, cut), stored_voxels(config));
        if (tile.w > room || cuts(columns, tile.w) != cut) continue;
        tile.h = 1;
        if (!set_streamed_plane(config, tables_)) continue;
        const int64_t pitch = config.plane.pitch;
        tile.h = std::min(rows, 1 + (room - tile.w) / pitch);
        tile.h = cuts(rows, cuts(rows, tile.h));
        consider(config);
        const int64_t plane = (tile.h + tables_.halo(1) + 7) * pitch;
        if (cut > 1 || tile.h < rows || plane > room) continue;
        tile.images = std::max<int64_t>(std::min(problem_.batch, room / plane), 1);
        consider(config);
        tile.images = 2;
        if (set_streamed_plane(config, tables_)) consider_slices(config, room / (config.plane.rows * pitch));
    }
}

void StreamedConfigs::consider_blocks(Config config) const {
    const int64_t tiles = config.products.m_tiles * kConsumers;
    const int64_t most_h = cuts(tables_.q_count[1], 8), most_w = cuts(tables_.q_count[2], 8);
    StagedPlane& plane = config.plane;
    for (plane.blocks_w = 1; plane.blocks_w <= std::min(tiles, most_w); ++plane.blocks_w) {
        plane.blocks_h = std::min(tiles / plane.blocks_w, most_h);
        config.tile.w = plane.blocks_w * 8;
        config.tile.h = plane.blocks_h * 8;
        const bool whole = plane.blocks_w == most_w && plane.blocks_h == most_h;
        config.tile.images = whole ? std::max<int64_t>(std::min(problem_.batch, tiles / (most_h * most_w)), 1) : 1;
        consider(config);
        if (whole) consider_slices(config, tiles / (most_h * most_w));
    }
}

/// Goes through channels and products of a consumer, as many as its registers and the code have room for.
void StreamedConfigs::consider_channels(Config config) const {
    const int64_t channels = round_up(out_channels(problem_), 8);
    int64_t slots = 0; // whose stores are written out
    for (const Ring& ring : tables_.depth.rings) slots += std::max<int64_t>(ring.length, 1);
    for (config.tile.channels = 8; config.tile.channels <= channels; config.tile.channels += 8) {
        config.products.columns = tables_.depth.slots * config.tile.channels;
        // Half as many registers are operands of one instruction, of the 128 that 512 threads start with: the assembler
        // refuses 208 columns. Where shifts are no constants, descriptors for them need some too.
        const int64_t most = !config.has_rearrangers() ? kMostColumns : config.any_size() ? 192 : 200;
        if (config.products.columns * tables_.plane.longest_product() > most) break;
        int64_t& m_tiles = config.products.m_tiles;
        for (m_tiles = 1; m_tiles <= kMostTiles; ++m_tiles) {
            const int64_t stores = slots * tables_.plane.row_phases * config.tile.channels * m_tiles;
            if (accumulator_registers(tables_, config) > most_accumulators(problem_, tables_, config)) break;
            if (stores > kMostUnrolledStores) break;
            const int64_t passes = parts(problem_) == 2 ? 1 : tables_.plane.pass_count();
            const int64_t products = passes * tables_.plane.products() * m_tiles * part_products(problem_);
            if (products > kMostUnrolledProducts) break;
            consider_flat(config);
            if (!config.any_size()) consider_blocks(config);
        }
    }
}

} // namespace

void each_streamed_config(const Problem& problem, const TapTables& tables, const Device& device, Engine engine,
                          const KeepConfig& keep, Sizes sizes) {
    const StreamedConfigs configs(problem, tables, device, keep);
    Config config{};
    config.form = Form::streamed;
    config.engine = engine;
    config.sizes = sizes;
    config.input.source = choose_source(problem, engine);
    config.store.way = choose_store(problem);
    // Rows of channel planes are de-interleaved by constant distances, ranges are not.
    if (config.any_size() && config.input.scatters_elements(problem)) config.input.source = Source::global;
    config.tile.slices = 1;
    for (const int64_t warps : rearranging_warps(problem, config)) {
        config.input.warps = warps;
        configs.consider_channels(config);
    }
}

} // namespace tconv3d::cuda::tensorcore
