#pragma once

#include "cuda/sweep/tile.hpp"

namespace tconv3d::cuda {

/// What producers take to stage slices.
struct SweepStagingCost {
    double load_latency = 850;           ///< clocks of a batch of loads of a producer
    double copy_latency = 700;           ///< clocks of its copies, all of them together
    double fetched_bytes_per_clock = 14; ///< from the L2 cache, for each multiprocessor
    double load_instructions = 2;        ///< to load an element or zero
    double member_instructions = 4;      ///< to go to the next channel or row, and to store a word
    double instructions_per_clock = 2;   ///< that consumers leave to producers
};

/// What estimates of the swept form are made of, in clocks, fitted to some 650 times of tiles on an H200: tf32 and
/// bf16, both layouts.
struct SweepModel {
    /// Tensor cores take half a clock for 64 rows, one column and a k step; what comes in between makes 1.4 times that.
    double product_clocks = 0.7;
    double least_product_clocks = 22;    ///< where columns are few, rows from registers take as long
    double operand_bytes_per_clock = 91; ///< of products, from shared memory: 128 by the hardware
    double rounding_clocks = 2;          ///< that 64 rows wait for their rounding
    SweepStagingCost staging;
    double slice_clocks = 2000; ///< of each slice, beside its products
    double tile_clocks = 1000;  ///< until a tile's first slice has come
    double item_clocks = 6000;  ///< to begin and end a CTA
};

/// Clocks of a multiprocessor for one slice of a tile.
double sweep_slice_clocks(const Problem& problem, const SweepTile& tile);

/// Sets the splits with the least estimated time, and that time.
void choose_sweep_splits(const Problem& problem, const Device& device, SweepTile& tile);

} // namespace tconv3d::cuda
