#pragma once

#include <string>

#include "cuda/tensorcore/streamed/tiles.hpp"

namespace tconv3d::cuda::tensorcore {

/// Why the problem cannot be gathered along D; empty where it can.
std::string reject_gathered(const Problem& problem, const TapTables& tables);

/// Calls `keep` with each config of the gathered form that fits the device.
void each_gathered_config(const Problem& problem, const TapTables& tables, const Device& device, const KeepConfig& keep,
                          Sizes sizes = Sizes::one);

/// Whether the rows of a tile follow one another in its positions as they do in the output.
bool is_contiguous(const Problem& problem, const Config& config);

} // namespace tconv3d::cuda::tensorcore
