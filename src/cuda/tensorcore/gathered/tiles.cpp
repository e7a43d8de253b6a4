#include <algorithm>

#include "cuda/tensorcore/gathered/cost.hpp"
#include "cuda/tensorcore/staging.hpp"

// Tiles of gathered sums (kernels/gather.cuh): which there are.
namespace tconv3d::cuda {

namespace {

constexpr int64_t kMostColumns = 256;
constexpr int64_t kMostUnrolled = 230; // products of a stage

/// Registers of a thread for sums: beside them it needs the places of what it stores.
int64_t most_sums(const Problem& problem, const StreamTile& tile) {
    if (tile.source == StreamSource::global) return 120;
    if (problem.channels_last()) return stream_is_16_bit(problem) ? 136 : 128;
    if (!stream_is_16_bit(problem)) return 160;
    return tile.store == StreamStore::staged ? 152 : 144;
}

/// In NCDHW a lane has the outputs of two positions, of which rows are multiples, or they go through shared memory.
StreamStore choose_store(const Problem& problem) {
    if (problem.channels_last()) return StreamStore::channels;
    return problem.dst()[2] % (2 * problem.stride[2]) == 0 ? StreamStore::voxel : StreamStore::staged;
}

/// Sets the bytes between the rows of 8 channels in shared memory: the vectors of four lanes lie in other banks than
/// those of the next channel.
void set_staged(StreamTile& tile, const Problem& problem) {
    tile.staged_bytes = 0;
    if (tile.store != StreamStore::staged) return;
    if (tile.pieces) {
        // A piece begins as far from a multiple of 16 bytes as in dst; at its end 16 bytes are loaded that it may not
        // have.
        const int64_t row = problem.dst()[2] * bytes_per_element(problem.dtype);
        tile.staged_bytes = round_up(tile.h * problem.stride[1] * row, 128) + 32;
        return;
    }
    const int64_t vector = 2 * problem.stride[2] * bytes_per_element(problem.dtype);
    tile.staged_bytes = round_up(cuts(tile.w, 2) * vector, 128) + 4 * vector;
}

/// Whether rows of dst meet within sectors, no more than two in each.
bool has_seams(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    constexpr int64_t kSector = 32;
    return tile.store == StreamStore::staged && tile.w >= tables.q_end[2] && tile.h * problem.stride[1] > 1 &&
           problem.dst()[2] * bytes_per_element(problem.dtype) >= kSector;
}

/// Whether the rows of all phases along H are pieces of dst. Each warpgroup stages those of one: with more phases, one
/// could wait for a buffer that only its own next step completes.
bool has_pieces(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    const bool one_for_each = static_cast<int64_t>(tables.row_sets.size()) == kStreamConsumers;
    return has_seams(tile, problem, tables) && stream_is_16_bit(problem) && one_for_each;
}

/// Positions whose outputs a lane stores at once, of which rows are multiples.
int64_t positions_at_once(const StreamTile& tile) {
    return tile.trades ? 4 : 2;
}

/// Positions from a row to the next. Right of a row are as many zeros as the taps read; where rows are whole, those
/// left of the next one serve.
int64_t pitch_of(const StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    const int64_t end = tables.q_end[2] + tables.delta_max[2], left = tables.delta_min[2];
    if (tile.tail == 0) return tile.w + tables.halo(2);
    return std::max(end, std::min(problem.src[2], end) - left);
}

/// Where a vector of two voxels is 4 bytes, lanes trade if rows are multiples of four, or the tile is one long row.
void set_vectors(StreamTile& tile, const Problem& problem) {
    const Extents dst = problem.dst();
    const bool long_row = gather_is_contiguous(problem, tile) && tile.h * dst[2] % 4 == 0 && dst[1] * dst[2] % 4 == 0;
    const bool rows = dst[2] % 4 == 0 && (tile.w % 4 == 0 || tile.w >= dst[2]);
    tile.trades = !problem.channels_last() && stream_is_16_bit(problem) && problem.stride[2] == 1 &&
                  !tile.interleaved && (long_row || rows);
    if (!long_row) tile.pitch = round_up(tile.pitch, positions_at_once(tile));
}

/// False where the copy engine does not take the plane, or 32 bits do not count its steps.
bool set_plane(StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    constexpr int64_t kMostBox = 256, kMostSteps = int64_t{1} << 30;
    const bool whole_rows = tile.w >= tables.q_end[2] && !tile.interleaved;
    tile.tail = whole_rows ? std::max<int64_t>(-tables.delta_min[2], 0) : 0;
    tile.pitch = pitch_of(tile, problem, tables);
    set_vectors(tile, problem);
    tile.rows = tile.h + tables.halo(1);
    if (tile.images > 1 && problem.channels_last() && !tile.interleaved) {
        while (tile.rows * tile.pitch % 8 != 0) ++tile.rows;
    }
    return tile.pitch <= kMostBox && tile.rows <= kMostBox &&
           stream_items(problem, tables, tile) * stream_depth(tables, tile) < kMostSteps;
}

/// Cuts the positions into products; false where they do not fit.
bool set_products(StreamTile& tile, const Problem& problem, const StreamTables& tables) {
    const int64_t span = tile.span();
    tile.m_tiles = cuts(span, kMostColumns);
    tile.columns = round_up(cuts(span, tile.m_tiles), 4 * positions_at_once(tile));
    const int64_t cores = tile.m_tiles * tile.columns / 8, loaded = tile.images * tile.rows * tile.pitch + tile.tail;
    const int64_t last = (cores - 1) * tile.core_stride() + 8;
    tile.positions = round_up(std::max(loaded, last + tables.halo(1) * tile.row_pitch() + tables.halo(2)), 8);
    const int64_t products = tables.pass_count() * tables.runs() * tile.m_tiles;
    return stream_sums(tables, tile) <= most_sums(problem, tile) && products <= kMostUnrolled;
}

/// Keeps the slices of src in stages: those that a step may read, or another one that comes meanwhile. Few come, and
/// one buffer for them may do. Of all such ways, the one with the least estimated clocks.
void consider_kept(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
                   const KeepTile& keep) {
    constexpr int64_t kMostStages = 16; // which there are barriers for
    const int64_t least = least_kept_stages(tile, problem, tables), most_raw = tile.raw_stages;
    // With phases along H in turn, several groups took longer than fewer k steps.
    const int64_t most_groups = tables.row_sets.size() > 1 ? 1 : tables.runs();
    StreamTile best{};
    tile.keeps = true;
    for (tile.raw_stages = 1; tile.raw_stages <= most_raw; ++tile.raw_stages) {
        for (const int64_t more : {int64_t{0}, stream_chunks(problem, tile)}) {
            tile.stages = least + more;
            if (tile.stages > kMostStages) break;
            for (tile.tap_groups = 1; tile.tap_groups <= most_groups; tile.tap_groups += cuts(tile.tap_groups, 2)) {
                if (!set_weight_stages(tile, problem, tables, device.shared_memory_per_block)) continue;
                estimate_gather(tile, problem, tables, device.multiprocessors);
                if (best.clocks <= 0 || tile.clocks < best.clocks) best = tile;
            }
        }
    }
    if (best.clocks > 0) keep(best);
}

/// Tries what follows from the geometry and the way of storing.
void consider_stored(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
                     const KeepTile& keep) {
    const Extents dst = problem.dst();
    if (tile.images > 1 && (problem.groups > 1 || tile.store == StreamStore::staged)) return;
    if (tile.images > 1 && tile.images * problem.dst_channels * dst[0] * dst[1] * dst[2] >= int64_t{1} << 31) return;
    set_staged(tile, problem);
    set_stream_runs(tile, problem, tables);
    if (tile.interleaved && (tile.source == StreamSource::planes || tile.source == StreamSource::runs)) return;
    if (!set_plane(tile, problem, tables) || !set_products(tile, problem, tables)) return;
    const int64_t all_steps = cuts(problem.src_channels_per_group(), stream_channel_step(problem));
    for (tile.steps = 1; tile.steps <= std::min<int64_t>(4, all_steps); tile.steps *= 2) {
        if (all_steps % tile.steps != 0 || !set_stream_raw(tile, problem)) return;
        consider_kept(tile, problem, tables, device, keep);
        if (!set_stream_stages(tile, problem, tables, device.shared_memory_per_block)) continue;
        estimate_gather(tile, problem, tables, device.multiprocessors);
        keep(tile);
    }
}

/// Seams and pieces are worth it where storing takes longer than the products.
void consider(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
              const KeepTile& keep) {
    consider_stored(tile, problem, tables, device, keep);
    tile.pieces = has_pieces(tile, problem, tables);
    tile.seams = !tile.pieces && has_seams(tile, problem, tables);
    if (tile.pieces || tile.seams) consider_stored(tile, problem, tables, device, keep);
}

/// Rows of one image, whole or cut; or several whole images.
void consider_rows(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
                   const KeepTile& keep) {
    const int64_t rows = tables.q_end[1], columns = tables.q_end[2];
    for (int64_t cut = 1; cut <= 4; ++cut) {
        tile.w = cut == 1 ? columns : round_up(cuts(columns, cut), 4);
        if (cuts(columns, tile.w) != cut) continue;
        tile.images = 1;
        tile.h = 0;
        for (int64_t parts = rows; parts >= 1; --parts) {
            if (cuts(rows, parts) == tile.h) continue;
            tile.h = cuts(rows, parts);
            consider(tile, problem, tables, device, keep);
        }
        if (cut > 1) continue;
        for (tile.images = 2; tile.images <= problem.batch; ++tile.images)
            consider(tile, problem, tables, device, keep);
    }
}

/// Rows of 8 positions, a core each, those of all images in turn.
void consider_interleaved(StreamTile tile, const Problem& problem, const StreamTables& tables, const Device& device,
                          const KeepTile& keep) {
    if (tables.q_end[2] > 8 || tile.store == StreamStore::staged) return;
    tile.interleaved = true;
    tile.blocks_w = 1;
    tile.w = 8;
    tile.h = tables.q_end[1];
    for (tile.images = 1; tile.images <= problem.batch; ++tile.images) consider(tile, problem, tables, device, keep);
}

} // namespace

std::string reject_gathered(const Problem& problem, const StreamTables& tables) {
    if (stream_parts(problem) > 1) return "takes f32 where tf32 is allowed, got f32 in full";
    if (problem.stride[2] > 2) return "takes strides 1 and 2 along w, got stride " + str(problem.stride);
    if (tables.row_phases(problem) > 1) return "every phase along h needs taps, got kernel " + str(problem.kernel);
    return "";
}

int64_t gather_place_bytes(const StreamTile& tile, const StreamTables& tables) {
    constexpr int64_t kPlaceBytes = 8;
    if (tables.form != StreamForm::gather || tile.store == StreamStore::staged) return 0;
    const int64_t pairs = tile.m_tiles * tile.columns / 2;
    return kStreamConsumers * static_cast<int64_t>(tables.row_sets.size()) * pairs * kPlaceBytes;
}

bool gather_is_contiguous(const Problem& problem, const StreamTile& tile) {
    return !problem.channels_last() && problem.stride[1] == 1 && problem.stride[2] == 1 && tile.images == 1 &&
           !tile.interleaved && tile.pitch == problem.dst()[2] && tile.w == tile.pitch && tile.pitch % 2 == 0;
}

void each_gather_tile(const Problem& problem, const StreamTables& tables, const Device& device, const KeepTile& keep) {
    if (!reject_gathered(problem, tables).empty()) return;
    StreamTile tile{};
    tile.engine = StreamEngine::wgmma;
    tile.source = choose_stream_source(problem, tile.engine);
    tile.store = choose_store(problem);
    tile.slices = 1;
    tile.dst_channels = 64;
    tile.gathered = true;
    tile.busy = kStreamConsumers; // which take turns
    consider_rows(tile, problem, tables, device, keep);
    consider_interleaved(tile, problem, tables, device, keep);
}

} // namespace tconv3d::cuda
