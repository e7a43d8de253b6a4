#pragma once

#include <functional>

#include "cuda/runtime/driver.hpp"
#include "cuda/tensorcore/config.hpp"

namespace tconv3d::cuda::tensorcore {

using KeepConfig = std::function<void(const Config&)>;

/// Calls `keep` with each config of the streamed form that fits the device.
void each_streamed_config(const Problem& problem, const TapTables& tables, const Device& device, Engine engine,
                          const KeepConfig& keep, Sizes sizes = Sizes::one);

} // namespace tconv3d::cuda::tensorcore
