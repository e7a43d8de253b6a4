#pragma once

#include "cuda/sweep/tile.hpp"

namespace tconv3d::cuda {

/// What producers take to stage slices. What they load before their first store hides nearly all of its latency.
struct SweepStagingCost {
    double copy_latency = 950;           ///< clocks of a producer's copies, all of them together
    double fetched_bytes_per_clock = 53; ///< from the L2 cache, for each multiprocessor
    double load_instructions = 2;        ///< to load an element or zero
    double access_instructions = 7;      ///< to go to the next channel or row, and to store a word
    double instructions_per_clock = 1.25;
};

/// What estimates of the swept form are made of, in clocks, fitted to some 400 times of tiles on an H200: tf32 and
/// bf16, both layouts.
struct SweepModel {
    /// Tensor cores take half a clock for 64 rows, one column and a k step; what comes in between makes 1.3 times that.
    double product_clocks = 0.65;
    double least_product_clocks = 26.5; ///< where columns are few, rows from registers take as long
    double rounding_clocks = 15;        ///< that 64 rows wait for their rounding
    SweepStagingCost staging;
    double overlap = 4;         ///< the norm that adds what overlaps: 1 for a sum, large for the longest alone
    double slice_clocks = 3400; ///< of each slice, beside what overlaps
    double tile_clocks = 800;   ///< until a tile's first slice has come
    double item_clocks = 12000; ///< to begin and end a CTA
};

/// Clocks of a multiprocessor for one slice of a tile.
double sweep_slice_clocks(const Problem& problem, const SweepTile& tile);

/// Sets the splits with the least estimated time, and that time.
void choose_sweep_splits(const Problem& problem, const Device& device, SweepTile& tile);

} // namespace tconv3d::cuda
