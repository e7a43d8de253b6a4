#include "cuda/sweep/cost.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {
namespace {

constexpr SweepModel kModel;

/// Of the sums of all splits; one weight may be more, but then there is one split, which has no sums.
constexpr int64_t kMostWorkspace = int64_t{64} << 20;

double as_double(int64_t value) {
    return static_cast<double>(value);
}

/// What producers do to bring a part of a slice: each place, which threads share, has a member of each channel or row.
struct Staging {
    int64_t places, members;
    int64_t elements;    ///< of a member: as many loads, or one of 16 bytes
    int64_t stores;      ///< of 16 bytes, of a member; 0 for one of 4 bytes
    bool aligned;        ///< whether there is one load
    int64_t wavefronts;  ///< of the L1 cache, for a load of a warp

    double warps() const { return as_double(places * members) / 32; }
    double latency() const {
        constexpr int64_t kRegisters = 32; // of what is on its way: kLoadedRegisters of the kernel
        const int64_t sharers = std::max<int64_t>(SweepThreads::kProducers / places, 1);
        const int64_t batch = kRegisters / (aligned ? 4 : elements);
        const int64_t rounds = cuts(places * sharers, SweepThreads::kProducers);
        return as_double(rounds * cuts(cuts(members, sharers), batch)) * kModel.load_latency;
    }
    double instructions() const {
        const double loads = aligned ? 5 : as_double(elements) * kModel.load_instructions;
        return warps() * (kModel.member_instructions + loads + as_double(stores) * 5);
    }
    double shared_clocks() const {
        return warps() * ((aligned ? 4 : as_double(elements * wavefronts)) + as_double(std::max<int64_t>(stores * 4, 1)));
    }
};

Staging fixed_staging(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    const bool aligned = !problem.channels_last() &&
                         sweep_roles(problem, tile.moves_src).fixed[2] % plane.cell_voxels() == 0;
    if (problem.channels_last())
        return {tile.fixed_channels * tile.row_cells, tile.height, plane.cell_voxels(), 1, false, 1};
    return {plane.cells(), tile.fixed_channels, plane.cell_voxels(), 1, aligned, 4};
}

Staging moved_staging(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    const int64_t elements = plane.cell_voxels() + plane.copies() - 1;
    const int64_t row_cells = int64_t{plane.phases()} * plane.phase_cells();
    if (problem.channels_last())
        return {tile.moved_channels * row_cells, plane.met_h(), elements, plane.copies(), false, 1};
    return {int64_t{plane.met_h()} * plane.row_words(), tile.moved_channels, plane.word_voxels(), 0, false,
            std::min<int64_t>(plane.phases(), 8)};
}

double kernel_clocks(const Problem& problem, const Device& device, const SweepTile& tile) {
    const int64_t items = cuts(sweep_items(problem, tile) * tile.splits, device.multiprocessors);
    const int64_t slices = cuts(sweep_slices(problem, tile), tile.splits);
    const int64_t depth = std::max<int64_t>(sweep_roles(problem, tile.moves_src).fixed[0], 1);
    const double stored = as_double(tile.rows() * tile.fixed_channels) / 32 * 4;
    return as_double(items) * (as_double(slices) * sweep_slice_clocks(problem, tile) +
                               as_double(cuts(slices, depth)) * kModel.tile_clocks + stored + kModel.item_clocks);
}

double estimate(const Problem& problem, const Device& device, const SweepTile& tile) {
    const double scale = 132.0 / device.multiprocessors;
    const double bytes = problem.bytes() / kModel.bytes_per_microsecond * scale;
    const double sums = tile.splits > 1 ? as_double(split_sums(problem)) * as_double(tile.splits + 1) * 4 : 0;
    const double second_pass =
        tile.splits > 1 ? kModel.next_launch + sums / kModel.bytes_per_microsecond * scale : 0;
    return kModel.launch +
           std::max(bytes, kernel_clocks(problem, device, tile) / kModel.clocks_per_microsecond) + second_pass;
}

} // namespace

double sweep_slice_clocks(const Problem& problem, const SweepTile& tile) {
    const SweepPlane plane = sweep_plane(problem, tile);
    const int64_t fresh = sweep_depth(problem, tile).fresh();
    const Staging fixed = fixed_staging(problem, tile), moved = moved_staging(problem, tile);
    const double products = as_double(plane.steps() * tile.warpgroup_tiles() * (SweepThreads::kConsumers / 128));
    const double columns = as_double(tile.fixed_channels);
    const double tensor = products * std::max(columns * kModel.product_clocks, kModel.least_product_clocks);
    const double operands = products * (64 + columns) * 32 / kModel.shared_bytes_per_clock;
    const double shared = operands + fixed.shared_clocks() + as_double(fresh) * moved.shared_clocks();
    const double instructions = fixed.instructions() + as_double(fresh) * moved.instructions();
    const double latency = fixed.latency() + as_double(fresh) * moved.latency();
    return std::max({std::max(tensor, shared) + kModel.slice_clocks, instructions / kModel.instructions_per_clock, latency});
}

void choose_sweep_splits(const Problem& problem, const Device& device, SweepTile& tile) {
    const int64_t items = sweep_items(problem, tile);
    const int64_t slices = std::max<int64_t>(sweep_slices(problem, tile), 1);
    const int64_t most = std::max<int64_t>(std::min(slices, kMostWorkspace / 4 / split_sums(problem)), 1);
    // Tensor cores cut off what a sum has no room for: 2^-24 of it, on average, in each k step. After this many it is
    // what rounding to tf32 costs.
    constexpr int64_t kMostSteps = 4096;
    const int64_t steps = slices * sweep_plane(problem, tile).steps();
    const int64_t fewest = std::clamp<int64_t>(cuts(steps, kMostSteps), 1, most);
    // As many as fill the device once, twice, and so on.
    constexpr int64_t kMostTimes = 6;
    SweepTile best = tile;
    for (int64_t times = 0; times <= kMostTimes; ++times) {
        tile.splits = std::clamp<int64_t>(times * device.multiprocessors / items, fewest, most);
        tile.microseconds = estimate(problem, device, tile);
        if (times == 0 || tile.microseconds < best.microseconds) best = tile;
    }
    tile = best;
}

} // namespace tconv3d::cuda
