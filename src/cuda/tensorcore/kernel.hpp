#pragma once

#include <memory>

#include "cuda/runtime/driver.hpp"
#include "cuda/tensorcore/choice.hpp"
#include "tconv3d/cuda.hpp"

namespace tconv3d::cuda::tensorcore {

/// The kernel of a tiling, and the one that packs its weights.
std::unique_ptr<Kernel> make_kernel(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                    const Tiling& tiling);

} // namespace tconv3d::cuda::tensorcore
