#pragma once

#include "cuda/runtime/driver.hpp"

namespace tconv3d::testing {

/// GPUs for what needs only their numbers.
inline const cuda::Device kHopper = {0, "made up", 90, 132, 232448, 233472, 62914560};
inline const cuda::Device kAmpere = {0, "made up", 80, 108, 166912, 167936, 41943040};

} // namespace tconv3d::testing
