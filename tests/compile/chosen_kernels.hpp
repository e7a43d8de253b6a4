#pragma once

#include "cuda/runtime/driver.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::testing {

/// What selection chooses for the problem on the device is compiled, with what packs its weights, and fits into its
/// shared memory and, but for some addresses, into registers. Bias: of fwd.
void expect_chosen_compiles(const Problem& problem, const cuda::Device& device, bool has_bias);

} // namespace tconv3d::testing
