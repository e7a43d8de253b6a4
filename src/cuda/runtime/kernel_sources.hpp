#pragma once

#include <vector>

#include "cuda/runtime/nvrtc.hpp"

namespace tconv3d::cuda {

/// The files of src/cuda/kernels, embedded by the build (cmake/Embed.cmake), in the order of their names.
const std::vector<SourceFile>& kernel_sources();

} // namespace tconv3d::cuda
