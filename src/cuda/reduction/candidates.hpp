#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <vector>

#include "cuda/runtime/driver.hpp"
#include "tconv3d/problem.hpp"

/// What the choices of a tile of the reduced and of the swept form have in common.
namespace tconv3d::cuda {

/// The sizes of parts that cut the whole evenly: for each given size parts that are at most as large, rounded up to the
/// multiple.
std::vector<int64_t> equal_parts(int64_t whole, std::initializer_list<int64_t> sizes, int64_t multiple = 1);

/// The first ones by cost, at most so many; of equal ones, the earlier.
template <typename Tile>
std::vector<Tile> first_of(const std::multimap<double, Tile>& by_cost, size_t most) {
    std::vector<Tile> list;
    for (const auto& [cost, tile] : by_cost)
        if (list.size() < most) list.push_back(tile);
    return list;
}

/// How long the kernels take beside the clocks of their CTAs, on an H200.
struct SplitModel {
    double clocks_per_microsecond = 1755;
    double bytes_per_microsecond = 4e6; ///< of DRAM, with 132 multiprocessors
    double launch = 5;                  ///< microseconds of the first kernel
    double next_launch = 2.5;           ///< of each further one

    double transfer(const Device& device, double bytes) const;
    /// The products, of which a multiprocessor takes so many clocks.
    double products(const Problem& problem, const Device& device, double clocks) const;
    /// What adds the sums of so many splits; one has none.
    double second_pass(const Problem& problem, const Device& device, int64_t splits) const;
};

/// What splits divide.
struct SplitWork {
    int64_t items; ///< CTAs of a split
    int64_t parts; ///< the least that a split may have is one of them
    int64_t steps; ///< k steps that are added to one sum where there is one split; 0 where sums are rounded on the way
};

/// The numbers of splits that are worth an estimate: as many as fill the device once, twice, and so on.
std::vector<int64_t> split_counts(const Problem& problem, const Device& device, const SplitWork& work);

/// Sets the number of splits with the least estimate, and that estimate.
template <typename Tile, typename Estimate>
void set_best_splits(Tile& tile, const std::vector<int64_t>& counts, const Estimate& estimate) {
    Tile best = tile;
    best.microseconds = 0;
    for (const int64_t count : counts) {
        tile.splits = count;
        tile.microseconds = estimate(tile);
        if (best.microseconds == 0 || tile.microseconds < best.microseconds) best = tile;
    }
    tile = best;
}

} // namespace tconv3d::cuda
