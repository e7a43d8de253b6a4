#include <algorithm>
#include <cstdio>

#include "cuda/tensorcore/config.hpp"
#include "cuda/tensorcore/staging.hpp"

namespace tconv3d::cuda {

namespace {

constexpr int64_t kMostColumns = 256;
constexpr int64_t kMostTiles = 6;
/// Stores that are written out in the code, for each D phase and slot of its ring: more compile for seconds.
constexpr int64_t kMostUnrolledStores = 320;
/// Products of a stage, which are written out too, but for split fp32 those of one pass: more compile for seconds.
constexpr int64_t kMostUnrolledProducts = 230;
constexpr int64_t kMostPackedBytes = int64_t{16} << 20;

/// A consumer thread's registers for sums: beside them it needs the places and the bias of what it stores, and
/// addresses, more of them for many products. Where fp32 is split it has all sums twice.
int64_t accumulator_registers(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const bool split = stream_parts(problem) == 2;
    // mma.sync takes its operands from registers too, and none change hands.
    if (tile.engine == StreamEngine::mma) return split ? 56 - 16 * tile.m_tiles : 84 - 14 * tile.m_tiles;
    if (split) return 88;
    if (tables.uses() > 32) return 140;
    const int64_t addresses = (tables.runs() > 24 ? 16 : 0) + (problem.channels_last() ? 12 : 0) +
                              (tile.source == StreamSource::global ? 16 : 0);
    // Many biases are not loaded before their turn.
    const int64_t biases = tile.dst_channels >= 32 ? 4 : tile.dst_channels / 4;
    return 204 - 4 * tile.m_tiles - biases - addresses;
}

StreamStore choose_store(const Problem& problem) {
    if (problem.channels_last()) return StreamStore::channels;
    const int64_t stride = problem.stride[2], width = problem.dst()[2];
    if (stride != 1 || !stream_is_16_bit(problem) || width % 2 != 0) return StreamStore::voxel;
    return width % 4 == 0 ? StreamStore::quads : StreamStore::pairs;
}

/// Tries what follows from the geometry and the way of storing.
void consider_stored(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
                     const KeepTile& keep) {
    const int64_t all_steps = cuts(problem.src_channels_per_group(), stream_channel_step(problem));
    const int64_t most_steps = std::min<int64_t>(4, all_steps);
    for (tile.steps = 1; tile.steps <= most_steps; tile.steps *= 2) {
        if (all_steps % tile.steps != 0) return;
        if (!set_stream_raw(tile, problem)) return;
        tile.turned = false;
        tile.own_weights = set_stream_own_weights(tile, problem, tables, device.shared_memory_per_block);
        if (tile.own_weights) {
            estimate_stream(tile, problem, tables, device.multiprocessors);
            keep(tile);
        }
        tile.own_weights = false;
        if (!set_stream_stages(tile, problem, tables, device.shared_memory_per_block)) return;
        tile.turned = stream_packed_words(problem, tables, tile) * 4 > kMostPackedBytes;
        estimate_stream(tile, problem, tables, device.multiprocessors);
        keep(tile);
    }
}

/// Tries what follows from the geometry.
void consider(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
              const KeepTile& keep) {
    if (tile.images > 1 && problem.groups > 1) return;
    const Extents dst = problem.dst();
    // The kernel counts the outputs of a tile's images in 32 bits.
    if (tile.images > 1 && tile.images * problem.dst_channels * dst[0] * dst[1] * dst[2] >= int64_t{1} << 31) return;
    set_stream_runs(tile, problem, tables);
    if (!set_stream_plane(tile, tables)) return;
    if (tile.busy < kStreamConsumers && tile.m_tiles > 1) return; // two could share these
    consider_stored(tile, problem, tables, device, keep);
    if (set_stream_staged(tile, problem, tables)) consider_stored(tile, problem, tables, device, keep);
}

/// Whether each slice of src has slices of dst to itself.
bool slices_are_alone(const Problem& problem, const StreamTables& tables) {
    const auto has_one = [](const Ring& ring) { return ring.length == 1; };
    return tables.delta_min[0] == 0 && tables.delta_max[0] == 0 &&
           std::all_of(tables.rings.begin(), tables.rings.end(), has_one) &&
           problem.dst()[0] == problem.stride[0] * problem.src[0];
}

/// Tiles that have several slices instead of several images: as many as fit and divide them all. Where channels are
/// contiguous they are slower: the copy engine brings each plane of each by itself.
void consider_slices(StreamTile tile, int64_t most, const Problem& problem, const StreamTables& tables,
                     const Device& device, const KeepTile& keep) {
    if (problem.channels_last() || !slices_are_alone(problem, tables)) return;
    tile.slices = std::min(most, problem.src[0]);
    while (tile.slices > 1 && problem.src[0] % tile.slices != 0) --tile.slices;
    tile.images = tile.slices;
    if (tile.slices > 1) consider(tile, problem, tables, device, keep);
}

/// Flat tiles: m64 tiles follow the positions, across the ends of rows and images.
void consider_flat(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
                   const KeepTile& keep) {
    const int64_t room = tile.m_tiles * kStreamConsumers * 64, rows = tables.q_end[1], columns = tables.q_end[2];
    for (int64_t cut = 1; cut <= std::min<int64_t>(columns, 12); ++cut) {
        tile.images = 1;
        tile.w = round_up(cuts(columns, cut), stream_stored_voxels(tile));
        if (tile.w > room || cuts(columns, tile.w) != cut) continue;
        tile.h = 1;
        if (!set_stream_plane(tile, tables)) continue;
        const int64_t pitch = tile.pitch;
        tile.h = std::min(rows, 1 + (room - tile.w) / pitch);
        tile.h = cuts(rows, cuts(rows, tile.h));
        consider(tile, problem, tables, device, keep);
        const int64_t plane = (tile.h + tables.halo(1) + 7) * pitch;
        if (cut > 1 || tile.h < rows || plane > room) continue;
        tile.images = std::max<int64_t>(std::min(problem.batch, room / plane), 1);
        consider(tile, problem, tables, device, keep);
        tile.images = 2;
        if (set_stream_plane(tile, tables))
            consider_slices(tile, room / (tile.rows * pitch), problem, tables, device, keep);
    }
}

/// Blocks: each m64 tile is 8 × 8 voxels.
void consider_blocks(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
                     const KeepTile& keep) {
    const int64_t tiles = tile.m_tiles * kStreamConsumers;
    const int64_t most_h = cuts(tables.q_end[1], 8), most_w = cuts(tables.q_end[2], 8);
    for (tile.blocks_w = 1; tile.blocks_w <= std::min(tiles, most_w); ++tile.blocks_w) {
        tile.blocks_h = std::min(tiles / tile.blocks_w, most_h);
        tile.w = tile.blocks_w * 8;
        tile.h = tile.blocks_h * 8;
        const bool whole = tile.blocks_w == most_w && tile.blocks_h == most_h;
        tile.images = whole ? std::max<int64_t>(std::min(problem.batch, tiles / (most_h * most_w)), 1) : 1;
        consider(tile, problem, tables, device, keep);
        if (whole) consider_slices(tile, tiles / (most_h * most_w), problem, tables, device, keep);
    }
}

} // namespace

int64_t stream_channel_step(const Problem& problem) {
    return 32 / bytes_per_element(problem.dtype);
}

int64_t stream_chunks(const Problem& problem, const StreamTile& tile) {
    return cuts(problem.src_channels_per_group(), stream_channel_step(problem) * tile.steps);
}

int64_t stream_all_steps(const Problem& problem, const StreamTile& tile) {
    return tile.steps * stream_chunks(problem, tile);
}

int64_t stream_parts(const Problem& problem) {
    return problem.dtype == DType::f32 && problem.math == MathMode::full ? 2 : 1;
}

int64_t stream_products(const Problem& problem) {
    return stream_parts(problem) == 2 ? 3 : 1;
}

int64_t stream_offset(const StreamTables& tables, const StreamTile& tile, const StreamOffset& offset) {
    return (offset.delta_h - tables.first_delta_h()) * tile.row_pitch() + offset.delta_w - tables.delta_min[2];
}

int64_t stream_depth(const StreamTables& tables, const StreamTile& tile) {
    if (tables.form == StreamForm::gather)
        return tables.q_end[0] * static_cast<int64_t>(tables.row_sets.size() * tables.rings.size());
    return tables.q_end[0] / tile.slices;
}

int64_t stream_items(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    // Gathered items have all phases along H, one after another.
    const int64_t sets = tables.form == StreamForm::gather ? 1 : static_cast<int64_t>(tables.row_sets.size());
    return sets * cuts(problem.batch, tile.images / tile.slices) * problem.groups *
           cuts(problem.dst_channels_per_group(), tile.dst_channels) * cuts(tables.q_end[1], tile.h) *
           cuts(tables.q_end[2], tile.w);
}

int64_t stream_sums(const StreamTables& tables, const StreamTile& tile) {
    return tile.m_tiles * tables.accumulators * tile.columns / 2;
}

bool stream_has_aligned_rows(const Problem& problem) {
    return problem.channels_last() || problem.dst()[2] % problem.stride[2] == 0;
}

int64_t stream_lane_channels(const Problem& problem, const StreamTile& tile) {
    int64_t channels = 2;
    if (tile.store != StreamStore::channels) return channels;
    if (tile.gathered) return 2 * channels; // rows of two cores in turn
    while (2 * channels * bytes_per_element(problem.dtype) <= 16 && tile.dst_channels % (8 * channels) == 0)
        channels *= 2;
    return channels;
}

std::string StreamTile::name() const {
    char text[120];
    const auto number = [](int64_t value) { return static_cast<long long>(value); };
    std::snprintf(text, sizeof text, "%lld%s x %lld x %lld voxels%s, %lld channels, %lld k steps a stage%s%s%s%s",
                  number(images), slices > 1 ? " slices" : "", number(h), number(w), blocks_w > 0 ? " in blocks" : "",
                  number(dst_channels), number(steps), store == StreamStore::staged ? ", staged" : "",
                  seams    ? " with seams"
                  : pieces ? " in pieces"
                           : "",
                  own_weights ? ", own weights" : "", keeps ? ", kept" : "");
    return text;
}

std::string StreamTile::work() const {
    char text[120];
    const auto number = [](int64_t value) { return static_cast<long long>(value); };
    std::snprintf(text, sizeof text, "%lld CTAs take %lld items each and %lld slices, about %.0f us", number(ctas),
                  number(whole_items / ctas), number(share), clocks / 1755);
    return text;
}

void each_stream_tile(const Problem& problem, const StreamTables& tables, const Device& device, StreamEngine engine,
                      const KeepTile& keep) {
    if (tables.form == StreamForm::gather) return each_gather_tile(problem, tables, device, keep);
    const int64_t channels = round_up(problem.dst_channels_per_group(), 8);
    int64_t turns = 0;
    for (const Ring& ring : tables.rings) turns += std::max<int64_t>(ring.length, 1);
    StreamTile tile{};
    tile.engine = engine;
    tile.source = choose_stream_source(problem, engine);
    tile.store = choose_store(problem);
    tile.slices = 1;
    for (tile.dst_channels = 8; tile.dst_channels <= channels; tile.dst_channels += 8) {
        tile.columns = tables.slots * tile.dst_channels;
        if (tile.columns * tables.longest_run() > kMostColumns) break;
        for (tile.m_tiles = 1; tile.m_tiles <= kMostTiles; ++tile.m_tiles) {
            const int64_t stores = turns * tables.row_phases(problem) * tile.dst_channels * tile.m_tiles;
            if (stream_sums(tables, tile) > accumulator_registers(problem, tables, tile)) break;
            if (stores > kMostUnrolledStores) break;
            const int64_t passes = stream_parts(problem) == 2 ? 1 : tables.pass_count();
            const int64_t products = passes * tables.runs() * tile.m_tiles * stream_products(problem);
            if (products > kMostUnrolledProducts) break;
            consider_flat(tile, problem, tables, device, keep);
            consider_blocks(tile, problem, tables, device, keep);
        }
    }
}

int64_t stream_packed_words(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    if (tile.own_weights) return 0;
    const int64_t channel_tiles = cuts(problem.dst_channels_per_group(), tile.dst_channels);
    const int64_t steps = stream_all_steps(problem, tile);
    const int64_t slots = (tile.turned ? 1 : tables.rotations) * tables.slots;
    return problem.groups * channel_tiles * steps * stream_parts(problem) * tables.pass_count() * tables.uses() *
           slots * tile.dst_channels * 8;
}

} // namespace tconv3d::cuda
