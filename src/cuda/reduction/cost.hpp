#pragma once

#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {

/// What estimates of the reduced form are made of. The numbers follow from the hardware, an H200; none has been fitted
/// to measured times yet.
struct ReductionModel {
    double clocks_per_microsecond = 1755;
    /// A product of 16 × 8 and one k step is a clock of all four tensor cores of a Hopper multiprocessor, two of an
    /// older one; mma.sync reaches three quarters of that.
    double product_clocks = 4.0 / 3;
    double shared_bytes_per_clock = 128;
    double copied_bytes_per_clock = 32; ///< from the L2 cache, for each multiprocessor
    double lanes_per_clock = 128;       ///< four instructions of a warp
    /// To lay out an element: its address, the load, the question whether it exists, and its share of the store.
    double layout_instructions = 8;
    double copy_latency = 1000; ///< clocks from the first piece's request to the last one's arrival, beside the bytes
    double barriers = 200;      ///< clocks of both barriers of a tile, with what the warps wait for one another
    double item_clocks = 3000;  ///< to begin and end a CTA
    double bytes_per_microsecond = 4e6; ///< of DRAM
    double launch = 5;                  ///< microseconds of the first kernel
    double next_launch = 2.5;           ///< of each further one
};

/// Clocks of a multiprocessor for one tile. `overlapped`: another CTA of it lays its tile out meanwhile.
double tile_clocks(const Problem& problem, const ReductionTile& tile, const Device& device, bool overlapped);

/// Sets the splits with the least estimated time, and that time.
void choose_splits(const Problem& problem, const Device& device, ReductionTile& tile);

} // namespace tconv3d::cuda
