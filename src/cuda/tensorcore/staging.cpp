#include "cuda/tensorcore/staging.hpp"

#include <algorithm>
#include <vector>

namespace tconv3d::cuda {

namespace {

constexpr int64_t kMostStages = 4;
constexpr int64_t kMostWeightStages = 8;
constexpr int64_t kMostBox = 256; // elements of a TMA box along a dimension

/// The most taps of one of that many groups that add to the same sums.
int64_t most_taps_of_a_sum(const StreamTables& tables, int64_t groups) {
    const std::vector<TapGroup>& begins = tables.tap_groups(groups);
    std::vector<int64_t> taps;
    int64_t most = 0, run = 0;
    size_t group = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& next : offset.runs) {
            if (run++ == begins[group].first_run) {
                taps.assign(static_cast<size_t>(tables.accumulators), 0);
                ++group;
            }
            // Those of a run add to sums of their own, which all runs with the same first one have.
            most = std::max(most, ++taps[static_cast<size_t>(next.first)]);
        }
    }
    return most;
}

/// Where fp32 is split: the most taps, or k steps of one, whose products are summed up before they are rounded.
constexpr int64_t kMostSummed = 3;

/// Groups of taps at least.
int64_t least_tap_groups(const Problem& problem, const StreamTables& tables) {
    int64_t groups = 1;
    while (stream_parts(problem) == 2 && most_taps_of_a_sum(tables, groups) > kMostSummed) ++groups;
    return groups;
}

/// As many k steps as the taps of the tile's groups allow.
void set_summed_steps(StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    tile.summed_steps = tile.steps;
    const int64_t taps = stream_parts(problem) == 2 ? most_taps_of_a_sum(tables, tile.tap_groups) : 0;
    while (tile.summed_steps > 1 && taps * tile.summed_steps > kMostSummed) tile.summed_steps /= 2;
}

/// Whether warps gather the positions of src from planes of a channel.
bool has_planes(const StreamTile& tile) {
    return tile.source == StreamSource::planes || tile.source == StreamSource::whole ||
           tile.source == StreamSource::runs;
}

/// Shared memory beside the stages.
int64_t fixed_bytes(const StreamTile& tile, const StreamTables& tables) {
    constexpr int64_t kBarriers = 1024;
    return kBarriers + StreamTile::kOverread + tile.raw_stages * tile.raw_bytes + tile.staged_total() +
           gather_place_bytes(tile, tables);
}

int64_t stream_stage_bytes(const StreamTile& tile, const Problem& problem) {
    return stream_parts(problem) * 2 * tile.steps * tile.positions * 16;
}

/// The weights of the largest of that many groups of taps.
int64_t weight_group_bytes(const StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t groups) {
    const std::vector<TapGroup>& begins = tables.tap_groups(groups);
    int64_t most = 0;
    for (size_t i = 0; i + 1 < begins.size(); ++i) most = std::max(most, begins[i + 1].first_use - begins[i].first_use);
    return most * tile.steps * stream_parts(problem) * tables.slots * tile.dst_channels * 32;
}

/// Small planes, which the tile has all of: their rows are short, and the copy engine takes its time for each.
bool takes_whole_planes(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    const int64_t plane = problem.src[1] * problem.src[2];
    return tile.engine == StreamEngine::wgmma && !problem.channels_last() && tile.h >= tables.q_end[1] &&
           tile.w >= tables.q_end[2] && plane <= kMostBox && plane * bytes_per_element(problem.dtype) % 16 == 0;
}

} // namespace

bool stream_is_16_bit(const Problem& problem) {
    return bytes_per_element(problem.dtype) == 2;
}

StreamSource choose_stream_source(const Problem& problem, StreamEngine engine) {
    const int64_t row = problem.channels_last() ? problem.src_channels_per_group() : problem.src[2];
    const bool copied = engine == StreamEngine::wgmma && row * bytes_per_element(problem.dtype) % 16 == 0;
    if (!copied) return StreamSource::global;
    if (!problem.channels_last()) return StreamSource::planes;
    return stream_parts(problem) == 2 ? StreamSource::raw_cores : StreamSource::channels;
}

int64_t stream_stored_voxels(const StreamTile& tile) {
    if (tile.store == StreamStore::quads) return 4;
    return tile.store == StreamStore::pairs ? 2 : 1;
}

bool set_stream_plane(StreamTile& tile, const StreamTables& tables) {
    const int64_t together = stream_stored_voxels(tile);
    if (tile.w % together != 0 && tile.w < tables.q_end[2]) return false;
    tile.pitch = round_up((tile.blocks_w > 0 ? tile.blocks_w * 8 : tile.w) + tables.halo(2), together);
    tile.rows = (tile.blocks_h > 0 ? tile.blocks_h * 8 : tile.h) + tables.halo(1);
    if (tile.images > 1 && !has_planes(tile)) {
        while (tile.rows * tile.pitch % 8 != 0) ++tile.rows;
    }
    const int64_t tiles = tile.blocks_w > 0 ? tile.images * tile.blocks_h * tile.blocks_w : cuts(tile.span(), 64);
    tile.busy = cuts(tiles, tile.m_tiles);
    const int64_t last =
        tile.blocks_w > 0 ? (tile.images * tile.rows - tables.halo(1)) * tile.pitch : tile.m_tiles * tile.busy * 64 + 1;
    const int64_t reach = tables.halo(1) * tile.pitch + tables.halo(2);
    tile.positions = round_up(std::max(tile.images * tile.rows * tile.pitch, last + reach), 8);
    return tile.pitch <= kMostBox && tile.rows <= kMostBox;
}

void set_stream_runs(StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    tile.run_rows = problem.src[1];
    tile.run_boxes = 1;
    if (takes_whole_planes(tile, problem, tables)) {
        tile.source = StreamSource::whole;
    } else if (tile.gathered && tile.source == StreamSource::planes && tile.w >= tables.q_end[2]) {
        constexpr int64_t kFewRows = 5; // as many single ones take no longer
        const int64_t most = (kMostBox - 16 / bytes_per_element(problem.dtype)) / problem.src[2];
        if (most < kFewRows) return;
        tile.source = StreamSource::runs;
        tile.run_boxes = cuts(tile.h + tables.halo(1), most);
        tile.run_rows = cuts(tile.h + tables.halo(1), tile.run_boxes);
    }
}

bool set_stream_raw(StreamTile& tile, const Problem& problem) {
    const int64_t align = 16 / bytes_per_element(problem.dtype);
    tile.raw_pitch = 0;
    tile.raw_bytes = 0;
    tile.raw_stages = 1;
    if (has_planes(tile)) {
        const bool planes = tile.source == StreamSource::planes;
        const int64_t row = planes ? tile.pitch + align - 1 : tile.run_rows * problem.src[2];
        tile.raw_pitch = round_up(row, align);
        // Eight channels are loaded at once in 16 bits: an odd multiple of 16 bytes puts them into different banks.
        const bool even = tile.raw_pitch / align % 2 == 0;
        if (stream_is_16_bit(problem) && even && tile.raw_pitch + align <= kMostBox) tile.raw_pitch += align;
        tile.raw_bytes = round_up(stream_raw_bytes(problem, tile), 128);
        tile.raw_stages = 2;
    } else if (tile.source == StreamSource::raw_cores) {
        tile.raw_bytes = 2 * tile.steps * tile.positions * 16;
        tile.raw_stages = 2;
    }
    return tile.raw_pitch <= kMostBox;
}

bool set_stream_own_weights(StreamTile& tile, const Problem& problem, const StreamTables& tables,
                            int64_t shared_limit) {
    constexpr int64_t kMostTaps = 16; // which are written out in the code
    // Weights move in pieces of 16 bytes, of taps or of channels; two of them fill a sector.
    const int64_t piece = 16 / bytes_per_element(problem.dtype), taps = problem.taps();
    if (problem.channels_last() && tile.dst_channels < 16) return false;
    if (taps % piece != 0 || taps > kMostTaps || problem.dst_channels_per_group() % piece != 0) return false;
    if (tables.rotations > 1 || tables.pass_count() > 1 || least_tap_groups(problem, tables) > 1) return false;
    tile.stage_bytes = stream_stage_bytes(tile, problem);
    tile.tap_groups = 1;
    set_summed_steps(tile, problem, tables);
    tile.weight_stages = stream_chunks(problem, tile);
    tile.weight_stage_bytes = weight_group_bytes(tile, problem, tables, 1);
    const int64_t fixed = fixed_bytes(tile, tables) + tile.weight_stages * tile.weight_stage_bytes;
    tile.stages = std::min((shared_limit - fixed) / tile.stage_bytes, kMostStages);
    tile.shared_bytes = fixed + tile.stages * tile.stage_bytes;
    return tile.stages >= 2;
}

bool set_weight_stages(StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t shared_limit) {
    tile.stage_bytes = stream_stage_bytes(tile, problem);
    tile.weight_stage_bytes = weight_group_bytes(tile, problem, tables, tile.tap_groups);
    const int64_t used = fixed_bytes(tile, tables) + tile.stages * tile.stage_bytes;
    if (tile.weight_stage_bytes <= 0 || shared_limit - used < 3 * tile.weight_stage_bytes) return false;
    set_summed_steps(tile, problem, tables);
    tile.weight_stages = std::min((shared_limit - used) / tile.weight_stage_bytes, kMostWeightStages);
    tile.shared_bytes = used + tile.weight_stages * tile.weight_stage_bytes;
    return true;
}

bool set_stream_stages(StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t shared_limit) {
    for (tile.stages = 3; tile.stages >= 2; --tile.stages) {
        for (tile.tap_groups = least_tap_groups(problem, tables); tile.tap_groups <= tables.runs();
             tile.tap_groups += cuts(tile.tap_groups, 2)) {
            if (!set_weight_stages(tile, problem, tables, shared_limit)) continue;
            while (tile.stages < kMostStages && tile.shared_bytes + tile.stage_bytes <= shared_limit) {
                ++tile.stages;
                tile.shared_bytes += tile.stage_bytes;
            }
            return true;
        }
    }
    return false;
}

bool set_stream_staged(StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    constexpr int64_t kMostBytes = 100 << 10, kWarps = kStreamConsumers * 4;
    const int64_t row = problem.dst()[2] * bytes_per_element(problem.dtype);
    const bool together = tables.row_sets.size() == 1;
    const bool whole_rows = together && tile.images == 1 && tile.w >= tables.q_end[2] && row >= 32;
    if (stream_has_aligned_rows(problem) || tile.engine != StreamEngine::wgmma || !whole_rows) return false;
    if (tile.busy < kStreamConsumers) return false; // they store together
    tile.store = StreamStore::staged;
    tile.staged_bytes = round_up(tile.h * problem.stride[1] * row + 15, 128) + 32;
    const int64_t columns = tile.dst_channels / 4;
    tile.staged_columns = std::min(columns, kWarps);
    while (columns % tile.staged_columns != 0 || tile.staged_total() > kMostBytes) {
        if (--tile.staged_columns == 0) return false;
    }
    return true;
}

} // namespace tconv3d::cuda
