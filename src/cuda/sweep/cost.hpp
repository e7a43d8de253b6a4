#pragma once

#include "cuda/sweep/tile.hpp"

namespace tconv3d::cuda {

/// What estimates of the swept form are made of. The numbers follow from the hardware, an H200.
struct SweepModel {
    double clocks_per_microsecond = 1755;
    double product_clocks = 0.5;        ///< of tensor cores for 64 rows, one column and a k step
    double least_product_clocks = 16;   ///< where columns are few, rows from registers take as long
    double shared_bytes_per_clock = 128;
    double load_latency = 1400;         ///< clocks of a batch of loads of a producer, or of its copies
    double fetched_bytes_per_clock = 18; ///< from the L2 cache, for each multiprocessor
    double load_instructions = 2;       ///< to load an element or zero
    double member_instructions = 4;     ///< to go to the next channel or row, and to store a word
    double raw_instructions = 6;        ///< to copy what a word of 16-bit elements is made of, and to make it
    double rounding_clocks = 6;         ///< that 64 rows wait for their rounding
    double instructions_per_clock = 2;  ///< that consumers leave to producers
    double slice_clocks = 350;          ///< between the last product of a slice and the first one of the next
    double tile_clocks = 1500;          ///< until a tile's first slice has come
    double item_clocks = 3000;          ///< to begin and end a CTA
    double bytes_per_microsecond = 4e6; ///< of DRAM
    double launch = 5;                  ///< microseconds of the first kernel
    double next_launch = 2.5;           ///< of the second pass
};

/// Clocks of a multiprocessor for one slice of a tile.
double sweep_slice_clocks(const Problem& problem, const SweepTile& tile);

/// Sets the splits with the least estimated time, and that time.
void choose_sweep_splits(const Problem& problem, const Device& device, SweepTile& tile);

} // namespace tconv3d::cuda
