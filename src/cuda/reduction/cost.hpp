#pragma once

#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {

/// What estimates of the reduced form are made of, in clocks. The numbers follow from the hardware, an H200. Only how
/// many times longer a tile takes than the longest of its parts was measured: the medians over the baselines.
struct ReductionModel {
    double tf32_overhead = 2.9;
    double split_overhead = 2;       ///< of fp32 in full, whose products are three times as many: not measured
    double laid_out_overhead = 2.25; ///< of 16-bit elements that are laid out
    double copied_overhead = 2.3;    ///< of those that copies bring to their positions
    /// A product of 16 × 8 and one k step is a clock of all four tensor cores of a Hopper multiprocessor, or of one of
    /// compute capability 10, two of others; mma.sync reaches three quarters of that.
    double product_clocks = 4.0 / 3;
    double shared_bytes_per_clock = 128;
    double copied_bytes_per_clock = 32; ///< from the L2 cache, for each multiprocessor
    double instructions_per_clock = 4;  ///< of a warp each
    double step_instructions = 12;      ///< of a warp for a k step, beside loads and products
    /// To lay out an element: the load, its part of a word and of what is computed and stored for a vector of channels.
    double layout_instructions = 6;
    double row_vector_instructions = 12;     ///< to copy 16 bytes of a row, channel by channel,
    double channel_vector_instructions = 40; ///< or of a voxel's channels, which asks for each voxel where it is
    double copy_latency = 1000;              ///< from the first request of a tile to the last arrival, beside its bytes
    double barrier = 150;                    ///< that warps wait for one another at the end of a tile
    double item_clocks = 8000;               ///< to begin and end a CTA
};

/// Clocks of a multiprocessor for one tile, where so many CTAs of it are at work.
double tile_clocks(const Problem& problem, const ReductionTile& tile, const Device& device, int64_t ctas);

/// Sets the splits with the least estimated time, and that time.
void choose_splits(const Problem& problem, const Device& device, ReductionTile& tile);

} // namespace tconv3d::cuda
