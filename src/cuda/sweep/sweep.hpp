#pragma once

#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"
#include "cuda/sweep/tile.hpp"

/// The family that takes bwd_weight on wgmma, in the swept form (kernels/sweep.cuh). Bias and splits are as in
/// `reduce`.
namespace tconv3d::cuda {

Answer answer_sweep(const Question& question);

/// Why 32-bit coordinates cannot serve a problem of bwd_weight; empty when they can.
std::string reject_beyond_32_bits(const Problem& problem);

KernelRequest sweep_request(const Problem& problem, const SweepTile& tile);

} // namespace tconv3d::cuda
