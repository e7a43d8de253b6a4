#include <algorithm>

#include "cuda/stream.hpp"

namespace tconv3d::cuda {

namespace {

/// Clocks of one stage on one multiprocessor, where work items differ on average: tensor cores, what brings the cores of src, by warps or by the copy
/// engine, and all copies run side by side, and bringing cores keeps shared memory from the others. The constants of
/// these estimates are fitted to the measured times of some hundred tiles on an H200.
double stage_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    const double passes = tables.mean_passes();
    const double tiles =
        passes * static_cast<double>(tile.m_tiles * kStreamConsumers * tile.steps * stream_products(problem));
    const double columns = static_cast<double>(tables.slots * tile.dst_channels);
    const double slower = tile.engine == StreamEngine::wgmma ? 1 : 1.8;
    double tensor = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            const double n = static_cast<double>(run.count) * columns;
            // Multiplying, or reading the operands from shared memory.
            tensor += std::max(0.44 * n, 22 + 0.18 * n) * tiles * slower;
        }
    }
    const double core_rows = static_cast<double>(tile.images * tile.rows * tile.pitch * 2 * tile.steps);
    const double arrange = core_rows * (tile.source == StreamSource::global ? 9 : 1);
    const double weights =
        passes * static_cast<double>(tile.steps * stream_parts(problem) * tables.uses()) * columns * 32;
    const double copied = (static_cast<double>(tile.stage_bytes) + weights) / 37;
    constexpr double kStageOverhead = 165;
    const double group_overhead = stream_parts(problem) == 2 ? 400 : 240;
    return std::max({tensor, arrange, copied}) + 0.1 * arrange + kStageOverhead +
           group_overhead * passes * static_cast<double>(tile.tap_groups);
}

/// How much longer stores take than those of 16 bytes that a lane has side by side. Where channels are planes, a core's
/// eight voxels fill whole sectors where rows and cores begin on them; the rest of a sector comes with the next core,
/// in flat tiles at once, in blocks and where rows are cut within a sector much later.
double scatter(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    if (problem.channels_last()) {
        return 0.6 + 6.4 / static_cast<double>(stream_lane_channels(problem, tile) * bytes_per_element(problem.dtype));
    }
    if (tile.store == StreamStore::staged) return 1.16;
    if (!stream_has_aligned_rows(problem)) return 3;
    const int64_t voxel = problem.stride[2] * bytes_per_element(problem.dtype), run = 8 * voxel;
    const bool aligned = problem.dst()[2] * bytes_per_element(problem.dtype) % 32 == 0;
    if (tile.blocks_w > 0) return aligned && run % 32 == 0 ? 1 + 6.4 / static_cast<double>(run) : 3;
    if (aligned && tile.w < tables.q_end[2] && tile.w * voxel % 32 != 0) return 4.1;
    return aligned && run % 32 == 0 && tile.pitch % 8 != 0 ? 1.3 : 1;
}

/// Clocks that the outputs of one source slice take.
double store_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    constexpr double kBytesPerClock = 25, kBarrier = 300;
    const double bytes = static_cast<double>(bytes_per_element(problem.dtype));
    const bool staged = tile.store == StreamStore::staged;
    const double run_bytes =
        bytes * static_cast<double>(problem.channels_last() ? tile.dst_channels : tile.w * problem.stride[2]) *
        static_cast<double>(staged ? tile.h * problem.stride[1] : 1);
    const double outputs = static_cast<double>(tile.images * tile.dst_channels * tile.h * tile.w * problem.stride[0] *
                                               tables.row_phases(problem) * problem.stride[2]);
    const int64_t buffers = staged ? problem.stride[0] * tile.dst_channels / 4 / tile.staged_columns : 0;
    const double instructions = problem.channels_last() ? 0 : staged ? 0.03 : 0.09;
    // A run begins and ends within 32-byte sectors.
    const double per_output =
        bytes * (1 + 32 / run_bytes) * scatter(tile, problem, tables) / kBytesPerClock + instructions;
    return outputs * per_output + static_cast<double>(buffers) * kBarrier;
}

/// Clocks of pieces of work items, `length` slices q of them together.
class PieceClocks {
public:
    PieceClocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables)
        : depth_(problem.src[0]), halo_(tables.halo(0)),
          per_slice_(stage_clocks(tile, problem, tables) *
                     static_cast<double>(
                         cuts(problem.src_channels_per_group(), stream_channel_step(problem) * tile.steps))),
          stores_(store_clocks(tile, problem, tables)) {}

    double of(int64_t length, int64_t pieces) const {
        // Each begins with slices that open its rings; those outside src cost nothing.
        const double slices = static_cast<double>(std::min(length + pieces * halo_, pieces * depth_));
        // While one warpgroup stores the other may multiply: the longer of the two counts, and much of the other.
        const double multiply = slices * per_slice_, store = static_cast<double>(length) * stores_;
        return std::max(multiply, store) + 0.61 * std::min(multiply, store);
    }

private:
    int64_t depth_, halo_;
    double per_slice_, stores_;
};

} // namespace

void estimate_stream(StreamTile& tile, const Problem& problem, const StreamTables& tables, int multiprocessors) {
    const PieceClocks clocks(tile, problem, tables);
    const int64_t depth = tables.q_end[0], items = stream_items(problem, tables, tile);
    const int64_t waves = items / multiprocessors, rest = (items - waves * multiprocessors) * depth;
    tile.whole_items = waves * multiprocessors;
    tile.share = 0;
    double share_clocks = 0;
    for (int64_t share = cuts(rest, multiprocessors); rest > 0 && share <= depth; ++share) {
        // Where shares do not divide an item, some have the end of one and the beginning of the next.
        const double next = clocks.of(share, depth % share == 0 ? 1 : 2);
        if (tile.share > 0 && next >= share_clocks) continue;
        tile.share = share;
        share_clocks = next;
    }
    tile.ctas = waves > 0 ? multiprocessors : cuts(rest, tile.share);
    constexpr double kPackedByte = 0.0014;
    const double pack = kPackedByte * static_cast<double>(stream_packed_words(problem, tables, tile) * 4);
    tile.clocks = static_cast<double>(waves) * clocks.of(depth, 1) + share_clocks + pack;
}

} // namespace tconv3d::cuda
