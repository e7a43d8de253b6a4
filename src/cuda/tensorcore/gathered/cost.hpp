#pragma once

#include "cuda/tensorcore/config.hpp"

/// The clocks of tiles of gathered sums.
namespace tconv3d::cuda {

/// Stages that hold all slices of src which a step may read, where they are kept.
int64_t least_kept_stages(const StreamTile& tile, const Problem& problem, const StreamTables& tables);

/// Sets what each CTA gets, and the clocks that takes.
void estimate_gather(StreamTile& tile, const Problem& problem, const StreamTables& tables, int multiprocessors);

} // namespace tconv3d::cuda
