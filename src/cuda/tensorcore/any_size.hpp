#pragma once

#include <vector>

#include "cuda/tensorcore/choice.hpp"

/// Kernels that serve tensors of any size (docs/design.md, "Any size"). A *layer* is a problem without its batch and
/// extents. It has at most six such kernels; which of them a problem takes, and with which tile, depends on its
/// extents.
namespace tconv3d::cuda::tensorcore {

/// The kernels of the problem's layer that have a tile for it, each with its best one, the best first. They are of
/// either form.
std::vector<Tiling> any_size_tilings(const Problem& problem, const Device& device, Engine engine);

} // namespace tconv3d::cuda::tensorcore
