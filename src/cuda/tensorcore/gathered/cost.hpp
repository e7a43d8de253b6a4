#pragma once

#include "cuda/tensorcore/config.hpp"

/// How long a config of the gathered form takes, by estimate.
namespace tconv3d::cuda::tensorcore {

/// Clocks until the positions of a stage are there.
struct GatheredInputCost {
    double global_row = 9; ///< of 16 bytes of a position that warps load from global memory,
    double global_wait = 450;
    double range_row = 1.6;      ///< that warps rearrange from ranges of bytes; not fitted,
    double half_range_row = 2.2; ///< the same in 16 bits
    double swizzled_row = 0.4;   ///< that TMA writes,
    double swizzled_wait = 600;
    double halves_row = 1.59; ///< that warps rearrange, of 16-bit elements
    double floats_row = 1.58; ///< and of fp32
    double apart = 0.75;      ///< factor of this where fp32 is de-interleaved into input planes; not fitted
    double more_warps = 0.52; ///< factor of these with six warps instead of two
    double wait = 910;
    double two_stages_wait = 980;     ///< warps that rearrange wait for those that multiply
    double retained_wait = 600;       ///< slices stay, and raw stages are two
    double one_raw_stage_wait = 1560; ///< slices stay, and TMA waits for the warps that rearrange
};

/// Clocks of a stage's products.
struct GatheredProductCost {
    double column = 0.425; ///< of a column,
    double product = 1.8;  ///< and of a product beside
    double stage = 155;
    double group = 44;         ///< of a tap group
    double latency = 615;      ///< until weights come,
    double busy_latency = 680; ///< and more where rows of odd length keep the L2 cache busy
    double weight_byte = 0.0386;
    double bytes_per_clock = 32; ///< of copies
};

/// Clocks of an output, by the way of storing: a fixed part and one for each byte.
struct GatheredStoreCost {
    double channels = 0.049, channels_byte = 0.05;
    double channels_stride_1 = 0.092, channels_stride_1_byte = 0.102;
    double vectors = 0.145, vectors_byte = 0.044;
    double vectors_stride_1 = 0.03, vectors_stride_1_byte = 0.107;
    double voxels = 2; ///< factor of vectors where each position is stored by itself; not fitted
    double bulk_rows = 0.18;
    double seamed_rows = 0.1, seamed_rows_byte = 0.062;
    double warp_rows = 0.25, warp_rows_byte = 0.09;
};

/// Factors, and clocks of an output slice and of a launch. The constants are fitted as those of StreamedModel.
struct GatheredModel {
    GatheredInputCost input;
    GatheredProductCost product;
    GatheredStoreCost store;
    double slice = 745;
    double seam = 108;
    double overlap = 0.165; ///< how much of the shorter one of multiplying and storing is not hidden
    double cut_channels_last = 1.06, cut_rows = 1.15, cut_warp_rows = 2.6; ///< factors where rows are cut
    /// Factors where CTAs do not walk side by side.
    double alone = 1.035, alone_channels_last = 1.015, alone_bulk_rows = 1.15, alone_seamed_rows = 1.2;
    double launch = 3500;
    double packed_byte = 0.001;
};

/// Stages that hold all input slices which an output slice may read, where they are retained.
int64_t least_retained_stages(const Config& config, const Problem& problem, const TapTables& tables);

/// Sets what each CTA takes, and the clocks that takes.
void estimate_gathered(Config& config, const Problem& problem, const TapTables& tables, int multiprocessors,
                       const GatheredModel& model = {});

} // namespace tconv3d::cuda::tensorcore
