#pragma once

#include <optional>

#include "cuda/runtime/driver.hpp"
#include "tconv3d/cuda.hpp"

namespace tconv3d::cuda {

/// What was remembered for the problem on such a device, in this process or an earlier one.
std::optional<Candidate> remembered(const Problem& problem, const Device& device);
void remember(const Problem& problem, const Device& device, const Candidate& fastest);

} // namespace tconv3d::cuda
