#pragma once

#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"
#include "cuda/sweep/tile.hpp"

/// The family that takes bwd_weight on wgmma, in the swept form (kernels/sweep.cuh). Bias and splits are as in
/// `reduce`.
namespace tconv3d::cuda {

Answer answer_sweep(const Question& question);

KernelRequest sweep_request(const Problem& problem, const SweepTile& tile);

} // namespace tconv3d::cuda
