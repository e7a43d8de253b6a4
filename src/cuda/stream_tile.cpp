#include <algorithm>
#include <cstdio>

#include "cuda/stream.hpp"

namespace tconv3d::cuda {

namespace {

constexpr int64_t kConsumers = kStreamConsumers;
constexpr int64_t kChannelStep = kStreamChannelStep;
/// A consumer thread has 232 registers. Beside the sums it needs two sets of fragments, addresses and the epilogue's.
constexpr int64_t kAccumulatorRegisters = 144;
constexpr int64_t kMostColumns = 256;
/// Stores that are written out in the code, for each rotation and D phase: more compile for seconds and spill.
constexpr int64_t kMostUnrolledStores = 512;
constexpr int64_t kLeastStages = 2;
constexpr int64_t kMostStages = 6;

/// Rows and pitch of a staged plane. The pitch holds the tile, its halo and the three columns that TMA's alignment may
/// put in front; rows are added until the lanes of a fragment, four channels × eight voxels, fall into 32 banks.
bool set_plane(StreamTile& tile, const StreamTables& tables) {
    tile.plane_pitch = round_up(tile.w + tables.delta_max[2] - tables.delta_min[2] + 3, 4);
    tile.plane_rows = tile.h + tables.delta_max[1] - tables.delta_min[1];
    for (int64_t extra = 0; extra < 8; ++extra, ++tile.plane_rows) {
        const int64_t banks = tile.plane_rows * tile.plane_pitch % 32;
        if (banks == 8 || banks == 24) return tile.plane_pitch <= 256 && tile.plane_rows <= 256;
    }
    return false;
}

bool set_stages(StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t shared_limit) {
    const int64_t src = round_up(kChannelStep * tile.plane_rows * tile.plane_pitch * 4, 128);
    const int64_t weights = round_up(tables.uses() * tables.slots * tile.dst_channels * kChannelStep * 4, 128);
    // Barriers, and where outputs interleave a buffer for each warp, as in stream.cuh.
    const int64_t turn = problem.stride[2] == 1 ? 0 : problem.stride[1] * 8 * (16 * problem.stride[2] + 8) * 4;
    const int64_t fixed = kConsumers * 4 * turn + 256;
    tile.stage_bytes = src + weights;
    tile.stages = std::min((shared_limit - fixed) / (src + weights), kMostStages);
    tile.shared_bytes = tile.stages * (src + weights) + fixed;
    return tile.stages >= kLeastStages;
}

/// Clocks of one stage on one multiprocessor: tensor cores, shared memory and the copies into it run side by side.
double stage_clocks(const StreamTile& tile, const StreamTables& tables) {
    const double m_tiles = static_cast<double>(tile.m_tiles * kConsumers);
    const double columns = static_cast<double>(tables.slots * tile.dst_channels);
    const double uses = static_cast<double>(tables.uses());
    // A wgmma with its left operand in registers takes 32 clocks even when it has few columns.
    double tensor = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            tensor += std::max(32.0, static_cast<double>(run.count) * columns / 2) * m_tiles;
        }
    }
    const double shared = (static_cast<double>(tables.offsets.size()) * 16 + uses * columns / 4) * m_tiles;
    const double copied = static_cast<double>(tile.stage_bytes) / 48;
    constexpr double kStageOverhead = 150; // the queue of wgmma drains at the end of each stage
    return std::max({tensor, shared, copied}) + kStageOverhead;
}

void set_segments(StreamTile& tile, const StreamTables& tables, const Problem& problem, int multiprocessors) {
    const int64_t depth = tables.q_end[0] - tables.q_begin[0];
    const int64_t tiles = problem.batch * problem.groups * cuts(problem.dst_channels_per_group(), tile.dst_channels) *
                          cuts(tables.q_end[1] - tables.q_begin[1], tile.h) *
                          cuts(tables.q_end[2] - tables.q_begin[2], tile.w);
    const int64_t chunks = cuts(problem.src_channels_per_group(), kChannelStep);
    const double per_slice = stage_clocks(tile, tables) * static_cast<double>(chunks);
    // Stores of a multiprocessor's share of the memory bandwidth; rows begin and end within 32-byte sectors.
    constexpr double kStoreBytesPerClock = 17;
    const double row_bytes = static_cast<double>(tile.w * problem.stride[2] * 4);
    const double stores = static_cast<double>(tile.dst_channels * problem.stride[0] * problem.stride[1] * tile.h) *
                          (row_bytes + 64) / kStoreBytesPerClock;
    tile.clocks = -1;
    for (int64_t segments = 1; segments <= depth; ++segments) {
        const int64_t length = cuts(depth, segments);
        if (cuts(depth, length) != segments) continue;
        const int64_t waves = cuts(tiles * segments, multiprocessors);
        const double slices = static_cast<double>(length - tables.delta_min[0]);
        // While one warpgroup stores the other may multiply: mostly, the longer of the two counts.
        const double multiply = slices * per_slice, store = static_cast<double>(length) * stores;
        const double clocks =
            static_cast<double>(waves) * (std::max(multiply, store) + 0.3 * std::min(multiply, store));
        if (tile.clocks < 0 || clocks < tile.clocks) {
            tile.clocks = clocks;
            tile.segments = segments;
            tile.segment_length = length;
        }
    }
}

} // namespace

std::string StreamTile::str() const {
    char text[160];
    std::snprintf(text, sizeof text,
                  "%lld x %lld voxels, %lld channels, %lld stages, %lld segments along d, about %.0f us",
                  static_cast<long long>(h), static_cast<long long>(w), static_cast<long long>(dst_channels),
                  static_cast<long long>(stages), static_cast<long long>(segments), clocks / 1755);
    return text;
}

StreamTile choose_stream_tile(const Problem& problem, const StreamTables& tables, int multiprocessors,
                              int64_t shared_limit) {
    const int64_t rows = tables.q_end[1] - tables.q_begin[1], columns = tables.q_end[2] - tables.q_begin[2];
    const int64_t channels = round_up(problem.dst_channels_per_group(), 8);
    StreamTile best{};
    for (int64_t dst_channels = 8; dst_channels <= channels; dst_channels += 8) {
        const int64_t n = tables.slots * dst_channels;
        for (int64_t m_tiles = 1; m_tiles <= 4; ++m_tiles) {
            const int64_t stores = tables.rotations * problem.stride[0] * problem.stride[1] * dst_channels * m_tiles;
            if (n * tables.longest_run() > kMostColumns || stores > kMostUnrolledStores) continue;
            if (n / 2 * tables.accumulators * m_tiles > kAccumulatorRegisters) continue;
            for (int64_t cut = 1; cut <= columns; ++cut) {
                StreamTile tile{};
                tile.dst_channels = dst_channels;
                tile.m_tiles = m_tiles;
                tile.w = cuts(columns, cut);
                const int64_t most_rows = m_tiles * kConsumers * 64 / tile.w;
                if (most_rows == 0 || cuts(columns, tile.w) != cut) continue;
                tile.h = cuts(rows, cuts(rows, std::min(rows, most_rows)));
                if (!set_plane(tile, tables) || !set_stages(tile, problem, tables, shared_limit)) continue;
                set_segments(tile, tables, problem, multiprocessors);
                if (best.clocks <= 0 || tile.clocks < best.clocks) best = tile;
            }
        }
    }
    return best;
}

} // namespace tconv3d::cuda
