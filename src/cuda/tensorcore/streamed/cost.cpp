#include <algorithm>

#include "cuda/tensorcore/config.hpp"
#include "cuda/tensorcore/staging.hpp"

namespace tconv3d::cuda {

namespace {

/// What it takes to bring the cores of src into a stage, in clocks.
struct Bringing {
    double core_row; ///< 16 bytes of a position
    double lost;     ///< how much of that the others lose
    double raw_row;  ///< that the copy engine brings, in planes
    double wait;     ///< of each stage
};

Bringing bringing(const StreamTile& tile, const Problem& problem) {
    switch (tile.source) {
    case StreamSource::channels:
        return {0.35, 0.15, 0, 60};
    case StreamSource::global:
        return {9, 0.15, 0, 450};
    case StreamSource::raw_cores:
        return {1.3, 0.15, 0, 450};
    case StreamSource::planes:
    case StreamSource::whole:
    case StreamSource::runs:
        break;
    }
    const bool whole = tile.source == StreamSource::whole;
    if (stream_is_16_bit(problem)) return {0.84, 0, whole ? 0 : 0.2, 470};
    if (stream_parts(problem) == 2) return {1.45, 0.54, whole ? 0 : 0.25, 155};
    return whole ? Bringing{1, 0.15, 0, 250} : Bringing{1.3, 0.15, 1.5, 450};
}

/// Clocks of one stage on one multiprocessor, of a work item with that many passes. Tensor cores, what brings the cores
/// of src, by warps or by the copy engine, and all copies run side by side, and bringing cores keeps shared memory from
/// the others. What is waited for is hidden by more buffers. The constants of these estimates are fitted to the
/// measured times of some hundred tiles on an H200.
double stage_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables, double passes) {
    const double tiles = passes * static_cast<double>(tile.m_tiles * tile.busy * tile.steps * stream_products(problem));
    const double columns = static_cast<double>(tables.slots * tile.dst_channels);
    const bool split = stream_parts(problem) == 2;
    const double factor = (split ? 0.95 : 1) * (tile.engine == StreamEngine::wgmma ? 1 : 1.8);
    double tensor = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            const double n = static_cast<double>(run.count) * columns;
            // Multiplying, or reading the operands from shared memory.
            tensor += std::max(0.46 * n, 18 + 0.29 * n) * tiles * factor;
        }
    }
    const double core_rows = static_cast<double>(tile.images * tile.rows * tile.pitch * 2 * tile.steps);
    const Bringing bring = bringing(tile, problem);
    const double cores = bring.core_row * core_rows;
    const double weights =
        passes * static_cast<double>(tile.steps * stream_parts(problem) * tables.uses()) * columns * 32;
    const int64_t channels = tile.steps * stream_channel_step(problem);
    const double raw_rows = static_cast<double>(tile.images * channels * tile.rows);
    const double copied =
        (static_cast<double>(tile.stage_bytes) + (tile.own_weights ? 0 : weights)) / 35 + bring.raw_row * raw_rows;
    const double buffers = tile.own_weights ? 0 : (split ? 245 : 205) / static_cast<double>(tile.weight_stages - 1);
    const double group_wait = (split ? 0 : 11) + buffers + (split ? 56 : 41) * static_cast<double>(tile.steps);
    return std::max({tensor, cores, copied}) + bring.lost * cores + bring.wait +
           group_wait * passes * static_cast<double>(tile.tap_groups);
}

/// How much longer stores take than those of 16 bytes that a lane has side by side. Where channels are planes, a core's
/// eight voxels fill whole sectors where rows and cores begin on them; the rest of a sector comes with the next core,
/// in flat tiles at once, in blocks and where rows are cut within a sector much later. Rows between those of a work
/// item come at another time too, which the L2 cache bridges for a small dst, and the products of split fp32 hide.
double scatter(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    if (problem.channels_last()) {
        return 0.6 + 6.4 / static_cast<double>(stream_lane_channels(problem, tile) * bytes_per_element(problem.dtype));
    }
    if (tile.store == StreamStore::staged) return 1.9;
    constexpr int64_t kSmall = 40 << 20;
    const bool large = problem.dst_elements() * bytes_per_element(problem.dtype) > kSmall;
    const double apart = large && tables.row_sets.size() > 1 && stream_parts(problem) == 1 ? 1.6 : 1;
    if (!stream_has_aligned_rows(problem)) return 6.2 * apart;
    const int64_t voxel = problem.stride[2] * bytes_per_element(problem.dtype), run = 8 * voxel;
    const bool aligned = problem.dst()[2] * bytes_per_element(problem.dtype) % 32 == 0;
    if (tile.blocks_w > 0) return apart * (aligned && run % 32 == 0 ? 1 + 6.4 / static_cast<double>(run) : 6.2);
    if (aligned && tile.w < tables.q_end[2] && tile.w * voxel % 32 != 0) return 3 * apart;
    return apart * (aligned && run % 32 == 0 && tile.pitch % 8 != 0 ? 1.3 : 1);
}

/// Clocks that the outputs of one source slice take.
double store_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    constexpr double kBytesPerClock = 33, kBarrier = 550;
    const double bytes = static_cast<double>(bytes_per_element(problem.dtype));
    const bool staged = tile.store == StreamStore::staged;
    const double run_bytes =
        bytes * static_cast<double>(problem.channels_last() ? tile.dst_channels : tile.w * problem.stride[2]) *
        static_cast<double>(staged ? tile.h * problem.stride[1] : 1);
    const double outputs = static_cast<double>(tile.images * tile.dst_channels * tile.h * tile.w * problem.stride[0] *
                                               tables.row_phases(problem) * problem.stride[2]);
    const int64_t buffers = staged ? problem.stride[0] * tile.dst_channels / 4 / tile.staged_columns : 0;
    const double instructions = staged ? 0 : 0.09;
    // A run begins and ends within 32-byte sectors.
    const double per_output =
        bytes * (1 + 32 / run_bytes) * scatter(tile, problem, tables) / kBytesPerClock + instructions;
    return outputs * per_output + static_cast<double>(buffers) * kBarrier;
}

/// Clocks of work items, whole or in pieces.
class ItemClocks {
public:
    ItemClocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables, double passes)
        : depth_(stream_depth(tables, tile)), src_depth_(problem.src[0] / tile.slices), delta_min_(tables.delta_min[0]),
          delta_max_(tables.delta_max[0]),
          per_slice_(stage_clocks(tile, problem, tables, passes) * static_cast<double>(stream_chunks(problem, tile))),
          stores_(store_clocks(tile, problem, tables)) {}

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
    /// Of src that a piece meets, those that open its rings too.
    int64_t slices(int64_t begin, int64_t end) const {
        return std::max<int64_t>(std::min(end + delta_max_, src_depth_) - std::max<int64_t>(begin + delta_min_, 0), 0);
    }

    /// While one warpgroup stores the other may multiply: the longer of the two counts, and half of the other.
    double of(int64_t slices, int64_t length) const {
        const double multiply = static_cast<double>(slices) * per_slice_, store = static_cast<double>(length) * stores_;
        return std::max(multiply, store) + 0.5 * std::min(multiply, store);
    }

    int64_t depth_, src_depth_, delta_min_, delta_max_;
    double per_slice_, stores_;
};

/// Sets the share with the least clocks: as small as the CTAs allow, or such that shares divide an item. Returns these.
double choose_share(StreamTile& tile, const ItemClocks& clocks, int64_t rest, int64_t depth, int64_t ctas) {
    double least = 0;
    tile.share = 0;
    const auto consider = [&](int64_t share) {
        const double next = clocks.of_share(share, cuts(rest, share));
        if (tile.share > 0 && next >= least) return;
        tile.share = share;
        least = next;
    };
    if (rest == 0) return 0;
    const int64_t smallest = cuts(rest, ctas);
    consider(smallest);
    for (int64_t parts = 1; cuts(depth, parts) > smallest; ++parts) consider(cuts(depth, parts));
    return least;
}

/// What the shape of a tile costs beside all that. Rows that are cut have more sectors that are read twice and written
/// in parts; the same voxels in blocks are a little faster than in rows.
double shape_factor(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    const bool cut = tile.w < tables.q_end[2] && !problem.channels_last();
    const bool could_be_blocks = tile.blocks_w == 0 && tile.w % 8 == 0 && tile.h % 8 == 0;
    const bool has_halo = tables.halo(1) > 0 || tables.halo(2) > 0;
    return (cut ? 1.03 : 1) * (could_be_blocks && !has_halo ? 1.06 : 1);
}

/// Clocks until the weights are packed, by a kernel of its own or by each CTA for each of its items.
double pack_clocks(const StreamTile& tile, const Problem& problem, const StreamTables& tables, int64_t waves) {
    constexpr double kLaunch = 7000, kWait = 1500;
    const double packed_byte = problem.channels_last() ? 0.004 : 0.002;
    const double bytes_of_element = static_cast<double>(bytes_per_element(problem.dtype));
    const double own_byte = problem.channels_last() ? 0.07 * bytes_of_element : stream_is_16_bit(problem) ? 0.07 : 0.05;
    if (!tile.own_weights)
        return kLaunch + packed_byte * static_cast<double>(stream_packed_words(problem, tables, tile) * 4);
    const int64_t bytes = tile.weight_stages * tile.weight_stage_bytes;
    return static_cast<double>(waves + 1) * (kWait + own_byte * static_cast<double>(bytes));
}

} // namespace

void estimate_stream(StreamTile& tile, const Problem& problem, const StreamTables& tables, int multiprocessors) {
    const int64_t depth = stream_depth(tables, tile), items = stream_items(problem, tables, tile);
    const int64_t waves = items / multiprocessors, rest = (items - waves * multiprocessors) * depth;
    // Items with many passes come first, so that CTAs with several have some of each.
    const ItemClocks clocks(tile, problem, tables, waves > 1 ? tables.mean_passes() : tables.most_passes());
    const double share = choose_share(tile, clocks, rest, depth, multiprocessors);
    tile.whole_items = waves * multiprocessors;
    // Without images there is nothing to share.
    tile.ctas = waves > 0 ? multiprocessors : rest > 0 ? cuts(rest, tile.share) : 1;
    const double pack = pack_clocks(tile, problem, tables, waves);
    tile.clocks = shape_factor(tile, problem, tables) * (static_cast<double>(waves) * clocks.of_whole() + share) + pack;
}

} // namespace tconv3d::cuda
