#include "cuda/sweep/cost.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/cuts.hpp"
#include "cuda/reduction/candidates.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {
namespace {

constexpr SweepModel kModel;
constexpr SplitModel kSplits;

double as_double(int64_t value) {
    return static_cast<double>(value);
}

enum class Access { word, cell, aligned_cell, piece, copied_word, copied_sixteen };

/// What producers do to stage a slice of one of the tensors: strips, and the accesses of each of them
/// (kernels/sweep/strip.cuh).
struct Staging {
    Access by;
    int64_t strips, accesses;
    int64_t elements = 1;   ///< of a word, cell or piece, a load each
    int64_t stores = 1;     ///< of a cell or piece
    int64_t wavefronts = 1; ///< of the L1 cache, for a load of a warp

    bool copies() const { return by == Access::copied_word || by == Access::copied_sixteen; }
    /// Accesses of all threads, as if all had as many as those that have most, by warps.
    double warps() const {
        const int64_t sharers = std::max<int64_t>(SweepThreads::kProducers / strips, 1);
        return as_double(cuts(strips * sharers, SweepThreads::kProducers) * cuts(accesses, sharers) *
                         SweepThreads::kProducers / 32);
    }
    double latency() const { return copies() ? kModel.staging.copy_latency : 0; }
    double instructions() const {
        double each = kModel.staging.access_instructions;
        if (by == Access::word || by == Access::cell || by == Access::piece)
            each += as_double(elements) * kModel.staging.load_instructions;
        if (by == Access::cell || by == Access::aligned_cell || by == Access::piece) each += as_double(stores) * 5;
        return warps() * each;
    }
    double shared_clocks() const {
        const double warps = as_double(strips * accesses) / 32;
        switch (by) {
        case Access::word:
            return warps * as_double(elements * wavefronts + 1);
        case Access::cell:
        case Access::piece:
            return warps * as_double(elements * wavefronts + stores * 4);
        case Access::copied_word:
            return warps * as_double(wavefronts + 1);
        case Access::aligned_cell:
        case Access::copied_sixteen:
            break;
        }
        return warps * 8;
    }
};

/// The loads of a warp for a piece are 16 bytes apart, so that each takes four wavefronts. Its stores together are as
/// many as a cell's.
Staging piece_staging(int64_t strips, int64_t accesses, const SweepPiece& piece, int64_t begin) {
    const int64_t stores = int64_t{piece.phases} * piece.copies * piece.words() / 4;
    return {Access::piece, strips, accesses, piece.loads(static_cast<int>(begin)), stores, 4};
}

Staging fixed_staging(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    if (plane.fixed_chunks)
        return {Access::copied_sixteen, tile.fixed_channels / plane.chunk_channels() * plane.tile_w(), tile.height};
    if (problem.channels_last())
        return {Access::cell, tile.fixed_channels * tile.row_cells, tile.height, plane.cell_voxels()};
    const bool aligned = has_aligned_cells(problem, tile);
    if (!aligned && problem.dtype != DType::f32)
        return piece_staging(plane.cells(), tile.fixed_channels, SweepPiece{1, 1}, -1);
    return {
        aligned ? Access::aligned_cell : Access::cell, plane.cells(), tile.fixed_channels, plane.cell_voxels(), 1, 4};
}

Staging moved_staging(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    const int64_t row_sixteens = plane.row_bytes() / 16;
    if (plane.moved_chunks)
        return {Access::copied_sixteen, tile.moved_channels / plane.chunk_channels() * row_sixteens, plane.met_h()};
    if (problem.channels_last())
        return {Access::cell, tile.moved_channels * row_sixteens / plane.copies(), plane.met_h(),
                plane.cell_voxels() + plane.copies() - 1, plane.copies()};
    if (moves_pieces(problem, tile)) {
        const SweepPiece piece = {plane.phases(), plane.copies()};
        return piece_staging(int64_t{plane.met_h()} * (plane.copy_bytes() / 4 / piece.words()), tile.moved_channels,
                             piece, moved_piece_begin(problem, tile));
    }
    // Words of two elements lie apart in memory as the phases do.
    if (problem.dtype != DType::f32)
        return {Access::word,
                plane.met_h() * row_sixteens * 4,
                tile.moved_channels,
                2,
                0,
                std::min<int64_t>(2 * plane.phases(), 8)};
    return {tile.copies ? Access::copied_word : Access::word, int64_t{plane.met_h()} * plane.met_w(),
            tile.moved_channels};
}

/// Bytes of whole sectors that hold so many neighbours in memory.
double sector_bytes(const Problem& problem, int64_t elements) {
    constexpr int64_t kSector = 32;
    return as_double(round_up(elements * bytes_per_element(problem.dtype), kSector));
}

/// Bytes that come from the L2 cache for rows of a tensor, of which a tile has some of all channels.
double row_bytes(const Problem& problem, int64_t rows, int64_t columns, int64_t channels, int64_t all_channels) {
    if (!problem.channels_last()) return as_double(rows * channels) * sector_bytes(problem, columns);
    if (channels == all_channels) return as_double(rows) * sector_bytes(problem, columns * channels);
    return as_double(rows * columns) * sector_bytes(problem, channels);
}

/// Bytes that come from the L2 cache for a slice of the fixed tensor and the fresh ones of the moved tensor.
double fetched_bytes(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    const int64_t groups = problem.groups, fresh = sweep_depth(problem, tile).fresh();
    return row_bytes(problem, plane.tile_h, plane.tile_w(), tile.fixed_channels, roles.fixed_channels * groups) +
           row_bytes(problem, fresh * plane.met_h(), plane.met_w(), tile.moved_channels, roles.moved_channels * groups);
}

/// What takes so long by itself, side by side.
double overlapped(std::initializer_list<double> clocks) {
    double sum = 0;
    for (const double each : clocks) sum += std::pow(each, kModel.overlap);
    return std::pow(sum, 1 / kModel.overlap);
}

/// What an estimate takes of a tile, however it is split: each is estimated with several splits.
struct TileWork {
    int64_t items, slices, depth;
    double slice_clocks, stored;

    TileWork(const Problem& problem, const SweepTile& tile)
        : items(sweep_items(problem, tile)), slices(sweep_slices(problem, tile)),
          depth(std::max<int64_t>(sweep_roles(problem, tile.moves_src).fixed[0], 1)),
          slice_clocks(sweep_slice_clocks(problem, tile)),
          stored(as_double(tile.rows() * tile.fixed_channels) / 32 * 4) {}

    /// Clocks of a multiprocessor.
    double clocks(const Device& device, int64_t splits) const {
        const int64_t split_slices = cuts(slices, splits);
        return as_double(cuts(items * splits, device.multiprocessors)) *
               (as_double(split_slices) * slice_clocks + as_double(cuts(split_slices, depth)) * kModel.tile_clocks +
                stored + kModel.item_clocks);
    }
};

double estimate(const Problem& problem, const Device& device, const TileWork& work, int64_t splits) {
    const double second_pass = splits > 1 ? kSplits.second_pass(problem, device, splits) : 0;
    return kSplits.products(problem, device, work.clocks(device, splits)) + second_pass;
}

} // namespace

double sweep_slice_clocks(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    const double fresh = as_double(sweep_depth(problem, tile).fresh());
    const Staging fixed = fixed_staging(problem, tile), moved = moved_staging(problem, tile);
    const double products = as_double(plane.steps() * tile.warpgroup_tiles() * (SweepThreads::kConsumers / 128));
    const double columns = as_double(tile.fixed_channels);
    const double tensor = products * std::max(columns * kModel.product_clocks, kModel.least_product_clocks);
    const double rounding = tile.copies ? products * kModel.rounding_clocks : 0;
    const double shared = rounding + fixed.shared_clocks() + fresh * moved.shared_clocks();
    const double instructions = fixed.instructions() + fresh * moved.instructions();
    const double fetching = fixed.latency() + fresh * moved.latency() +
                            fetched_bytes(problem, tile) / kModel.staging.fetched_bytes_per_clock;
    return kModel.slice_clocks + overlapped({tensor, shared, instructions / kModel.staging.instructions_per_clock,
                                             fetching / as_double(tile.stages - 1)});
}

void choose_sweep_splits(const Problem& problem, const Device& device, SweepTile& tile) {
    const TileWork work(problem, tile);
    const int64_t steps = work.slices * sweep_plane(problem, tile).steps();
    set_best_splits(tile, split_counts(problem, device, {work.items, work.slices, steps}),
                    [&](const SweepTile& split) { return estimate(problem, device, work, split.splits); });
}

} // namespace tconv3d::cuda
