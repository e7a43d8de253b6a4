#pragma once

#include "cuda/outer/tile.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"

/// The family that takes bwd_weight in 16 bits on wgmma, in the outer form (kernels/outer.cuh). Bias and splits are as
/// in `reduce`.
namespace tconv3d::cuda {

Answer answer_outer(const Question& question);

KernelRequest outer_request(const Problem& problem, const OuterTile& tile);

} // namespace tconv3d::cuda
