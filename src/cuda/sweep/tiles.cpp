// The tiles of the swept form: those that fit, of which the least estimates are kept.
#include <algorithm>
#include <map>

#include "core/cuts.hpp"
#include "core/lasting.hpp"
#include "cuda/reduction/candidates.hpp"
#include "cuda/select/layer.hpp"
#include "cuda/sweep/cost.hpp"

namespace tconv3d::cuda {
namespace {

constexpr int64_t kMostColumns = 192; // of a wgmma whose registers are at most the 128 that a thread begins with
constexpr int64_t kMostMet = 1024;    // rows or columns of the moved tensor in a slot: far more than fit
constexpr size_t kShapes = 24;        // whose planes are gone through

/// Blocks of whole rows of taps, or of some taps of one row.
std::vector<Extents> tap_blocks(const Problem& problem) {
    const Extents& kernel = problem.kernel;
    const auto some = [](int64_t taps) { return equal_parts(taps, {1, 2, 3, 4, 5, 6, 8, 16}); };
    constexpr int64_t kMost = 64;
    std::vector<Extents> list;
    if (kernel[2] <= kMost)
        for (const int64_t h : some(kernel[1]))
            for (const int64_t d : some(kernel[0])) list.push_back({d, h, kernel[2]});
    for (const int64_t w : some(kernel[2]))
        if (w < kernel[2]) list.push_back({1, 1, w});
    return list;
}

/// Whether a slice has whole lines, and products for two groups at least.
bool has_rounds(const SweepTile& tile) {
    if (tile.row_cells == 1 && tile.height % 2 != 0) return false;
    return sweep_lines(tile) * sweep_line_steps(tile) * tile.warpgroup_tiles() > 1;
}

/// Whether half of the tiles of rows can be on their way to a product while the others are multiplied.
bool fits_registers(const SweepTile& tile) {
    return sweep_row_registers(tile) >= 2 * 4 * cuts(tile.warpgroup_tiles(), 2);
}

bool fits(const Problem& problem, const Device& device, const SweepTile& tile) {
    const SweepRoles roles = sweep_roles(problem, tile.moves_src);
    const int64_t met[] = {roles.stride[1] * (tile.height - 1) + roles.dilation[1] * (tile.taps[1] - 1) + 1,
                           roles.stride[2] * (tile.row_cells * 8 - 1) + roles.dilation[2] * (tile.taps[2] - 1) + 1,
                           roles.dilation[0] * (tile.taps[0] - 1) + 1};
    if (*std::max_element(std::begin(met), std::end(met)) > kMostMet || met[0] * met[1] * met[2] > (1 << 20))
        return false;
    return has_rounds(tile) && sweep_shared_bytes(problem, tile) <= device.shared_memory_per_block;
}

/// Whether a CTA counts its slices, and those of the moved tensor that it brings for them, in 32 bits.
bool is_countable(const Problem& problem, const SweepTile& tile) {
    return cuts(sweep_slices(problem, tile), tile.splits) < (int64_t{1} << 31) / sweep_depth(problem, tile).met();
}

/// Sets the splits of a tile, and its estimate; false where the tile cannot be taken.
bool set_splits(const Problem& problem, const Device& device, SweepTile& tile) {
    if (!fits(problem, device, tile)) return false;
    choose_sweep_splits(problem, device, tile);
    return is_countable(problem, tile);
}

std::vector<int64_t> row_cells(const Problem& problem, bool moves_src) {
    const int64_t width = sweep_roles(problem, moves_src).fixed[2];
    const int64_t cells = cuts(width, 16 / bytes_per_element(problem.dtype));
    std::vector<int64_t> list = {1};
    for (const int64_t part : equal_parts(cells, {2, 4, 6, 8, 12, 16, 24}, 2)) list.push_back(part);
    return list;
}

/// Tiles without a plane yet: which tensor is moved, channels and taps. The best by the clocks of their products come
/// first.
std::vector<SweepTile> shapes(const Problem& problem) {
    std::multimap<double, SweepTile> by_products;
    const bool may_move_src =
        std::all_of(problem.stride.begin(), problem.stride.end(), [](int64_t s) { return s == 1; });
    for (const bool moves_src : {false, true}) {
        if (moves_src && !may_move_src) continue;
        const SweepRoles roles = sweep_roles(problem, moves_src);
        const int64_t chunk = has_chunks(problem, roles.moved_channels) ? 16 / bytes_per_element(problem.dtype) : 1;
        for (const int64_t fixed : equal_parts(roles.fixed_channels, {8, 16, 24, 32, 48, 64, 96, 128, 192, 256}, 8))
            for (const int64_t moved :
                 equal_parts(roles.moved_channels, {4, 8, 16, 24, 32, 48, 64, 96, 128, 256}, chunk))
                for (const Extents& taps : tap_blocks(problem)) {
                    const SweepTile shape = {moves_src, fixed, moved, taps, 2, 1, false};
                    if (fixed > kMostColumns || !fits_registers(shape)) continue;
                    const double columns = static_cast<double>(fixed);
                    const double clocks = static_cast<double>(sweep_items(problem, shape) * shape.warpgroup_tiles()) *
                                          std::max(columns / 2, 16 + columns / 4);
                    by_products.emplace(clocks, shape);
                }
    }
    return first_of(by_products, kShapes);
}

bool takes_chunks(const Problem& problem, const SweepTile& shape) {
    return has_chunks(problem, sweep_roles(problem, shape.moves_src).moved_channels);
}

/// The best plane of a shape; without an estimate where none fits.
SweepTile with_best_plane(const Problem& problem, const Device& device, const SweepTile& shape) {
    SweepTile best = shape;
    best.microseconds = 0;
    const int64_t rows = sweep_roles(problem, shape.moves_src).fixed[1];
    std::vector<int64_t> heights = equal_parts(rows, {1, 2, 3, 4, 6, 8, 16, 32});
    if (rows % 2 == 1) heights.push_back(rows + 1);
    // Elements that many taps multiply are better rounded once, by producers: copied ones are rounded for each tap.
    std::vector<bool> ways = {false};
    if (problem.dtype == DType::f32 && (!problem.channels_last() || takes_chunks(problem, shape))) ways.push_back(true);
    for (const bool copies : ways)
        for (const int64_t stages : {2, 3})
            for (const int64_t cells : row_cells(problem, shape.moves_src))
                for (const int64_t height : heights) {
                    SweepTile tile = shape;
                    tile.copies = copies;
                    tile.stages = stages;
                    tile.row_cells = cells;
                    tile.height = height;
                    if (!set_splits(problem, device, tile)) continue;
                    if (best.microseconds == 0 || tile.microseconds < best.microseconds) best = tile;
                }
    return best;
}

/// Whether 16 bytes divide the rows of src. Where they do, they divide those of dst at all sizes, or at none.
bool has_aligned_src(const Problem& problem) {
    return !problem.channels_last() && problem.src[2] * bytes_per_element(problem.dtype) % 16 == 0;
}

/// The best tiles of every third reference, each tile once: to find them is what takes long.
std::vector<SweepTile> tiles_of(const std::vector<Problem>& references, const Device& device) {
    constexpr size_t kOfEach = 4;
    std::map<std::string, SweepTile> by_name;
    for (size_t i = 0; i < references.size(); i += 3) {
        for (SweepTile& tile : best_sweep_tiles(references[i], device, kOfEach)) {
            tile.splits = 1;
            by_name.emplace(tile.str(), tile);
        }
    }
    std::vector<SweepTile> tiles;
    tiles.reserve(by_name.size());
    for (const auto& [name, tile] : by_name) tiles.push_back(tile);
    return tiles;
}

/// The tiles of a layer: six, in NCDHW half of them for rows of src that 16 bytes divide and half for others.
std::vector<SweepTile> find_layer_tiles(const Problem& problem, const Device& device) {
    const bool aligned = has_aligned_src(problem);
    const std::vector<Problem> references =
        layer_references(problem, [&](const Problem& other) { return has_aligned_src(other) == aligned; });
    std::vector<SweepTile> tiles = tiles_of(references, device);
    std::vector<std::vector<double>> costs(tiles.size());
    for (size_t i = 0; i < tiles.size(); ++i) {
        tiles[i].any_rows = !aligned;
        for (const Problem& reference : references)
            costs[i].push_back(set_splits(reference, device, tiles[i]) ? tiles[i].microseconds : kNoCost);
    }
    std::vector<SweepTile> chosen;
    for (const size_t i : choose_few(costs, problem.channels_last() ? 6 : 3)) chosen.push_back(tiles[i]);
    return chosen;
}

} // namespace

std::vector<SweepTile> any_size_sweep_tiles(const Problem& problem, const Device& device) {
    static Lasting<FoundLayers<std::vector<SweepTile>>> found;
    const std::string key = layer_key(problem, device, has_aligned_src(problem) ? "aligned" : "any");
    std::multimap<double, SweepTile> by_time;
    for (SweepTile tile : found->get(key, [&] { return find_layer_tiles(problem, device); }))
        if (set_splits(problem, device, tile)) by_time.emplace(tile.microseconds, tile);
    return first_of(by_time, by_time.size());
}

std::vector<SweepTile> best_sweep_tiles(const Problem& problem, const Device& device, size_t most) {
    std::multimap<double, SweepTile> by_time;
    for (const SweepTile& shape : shapes(problem)) {
        const SweepTile tile = with_best_plane(problem, device, shape);
        if (tile.microseconds > 0) by_time.emplace(tile.microseconds, tile);
    }
    return first_of(by_time, most);
}

} // namespace tconv3d::cuda
