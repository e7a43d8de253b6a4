#pragma once

#include "cuda/tensorcore/config.hpp"

/// How long a config of the streamed form takes, by estimate.
namespace tconv3d::cuda::tensorcore {

/// What it takes to bring the input into a stage, in clocks.
struct InputCost {
    double core_row; ///< of 16 bytes of a position
    double lost;     ///< how much of that the others lose
    double raw_row;  ///< of a row that TMA brings
    double wait;     ///< of each stage
};

/// The cost of each way to bring it.
struct StreamedInputCost {
    InputCost swizzled = {0.35, 0.15, 0, 60};
    InputCost global = {9, 0.15, 0, 450};
    InputCost core_matrices = {1.3, 0.15, 0, 450};
    InputCost ranges = {1.3, 0.15, 0, 450};      ///< not fitted: scaled from a loop of 97 instructions to 52
    InputCost half_ranges = {1.5, 0.15, 0, 470}; ///< the same, 47 of 92
    InputCost halves = {0.84, 0, 0.2, 470};
    InputCost split = {1.45, 0.54, 0.25, 155};
    InputCost tf32_rows = {1.3, 0.15, 1.5, 450};
    InputCost tf32_planes = {1, 0.15, 0, 250};
    double apart = 0.75;      ///< factor of core_row where fp32 is de-interleaved into input planes; not fitted
    double more_warps = 0.52; ///< factor of core_row with six warps instead of two
};

/// Clocks of a stage's products on one multiprocessor.
struct ProductCost {
    double column = 0.46;         ///< of a column of an m64 product
    double operand = 18;          ///< of reading the operands of a product from shared memory,
    double operand_column = 0.29; ///< and of each column of it
    double split = 0.95;          ///< factor where fp32 is split
    double mma = 1.8;             ///< factor for mma.sync
    double bytes_per_clock = 35;  ///< of copies
    double group = 11;            ///< of a tap group, where fp32 is not split
    double group_step = 41;       ///< of its k steps
    double split_step = 56;       ///< the same where fp32 is split
    double buffer = 205;          ///< of waiting for weights, with one spare stage
    double split_buffer = 245;    ///< the same where fp32 is split
};

/// How much longer stores take than those of 16 bytes that a lane has side by side.
struct StoreCost {
    double bytes_per_clock = 33;
    double output = 0.09;       ///< clocks of an output's instructions
    double barrier = 550;       ///< clocks of a buffer in shared memory
    double channels = 0.6;      ///< channels-last: fixed part,
    double channel_bytes = 6.4; ///< and what is divided by a lane's bytes
    double bulk_rows = 1.9;
    double unaligned = 6.2;
    double block_bytes = 6.4; ///< blocks: what is divided by the bytes of a row of 8 voxels
    double cut_rows = 3;      ///< rows that are cut within a sector
    double odd_pitch = 1.3;   ///< sectors of two core matrices
    double rows_apart = 1.6;  ///< the rows between come later, of an output beyond the L2 cache
};

/// Clocks until the weights are packed.
struct PackCost {
    double launch = 7000; ///< of a kernel of its own
    double byte = 0.002;  ///< that it packs
    double channels_last_byte = 0.004;
    double wait = 1500; ///< where CTAs pack their own, for each item
    double own_byte = 0.05;
    double own_byte_16_bit = 0.07;
    double own_byte_channels_last = 0.07; ///< times the bytes of an element
};

/// The constants are fitted to measured times of some hundred configs on an H200: `python -m tconv3d tune --record`
/// measures such times and tools/fit-cost-model fits to them (docs/performance.md, The cost model). A new constant goes
/// into tools/fit/constants.cpp too.
struct StreamedModel {
    StreamedInputCost input;
    ProductCost product;
    StoreCost store;
    PackCost pack;
    double overlap = 0.5;    ///< how much of the shorter one of multiplying and storing is not hidden
    double cut_tile = 1.03;  ///< factor where rows are cut
    double flat_tile = 1.06; ///< factor of flat tiles that could be blocks
};

/// Sets what each CTA takes, such that the config takes the least estimated clocks, and these.
void estimate_streamed(Config& config, const Problem& problem, const TapTables& tables, int multiprocessors,
                       const StreamedModel& model = {});

} // namespace tconv3d::cuda::tensorcore
