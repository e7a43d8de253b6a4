#pragma once

#include "cuda/kernels/shared/reduction.cuh"
#include "cuda/kernels/shared/split_sums.cuh"
#include "cuda/reduction/tile.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"

/// The family that takes bwd_weight on tensor cores, in the reduced form (kernels/reduction.cuh): the depth of its
/// products is voxels. The sums of its splits are added by a second pass (kernels/add_splits.cuh), and the
/// gradient of the bias has a kernel of its own (kernels/reduction_bias.cuh).
namespace tconv3d::cuda {

Answer answer_reduce(const Question& question);

KernelRequest reduction_request(const Problem& problem, const ReductionTile& tile);
KernelRequest reduction_bias_request(const Problem& problem);

/// All but the tensors and sums.
ReductionArguments reduction_arguments(const Problem& problem, const ReductionTile& tile);
ReductionBiasArguments reduction_bias_arguments(const Problem& problem, const Device& device);

/// What the second pass adds, all but the tensors and sums.
AddSplitsArguments reduction_split_sums(const Problem& problem, int64_t splits, const Device& device);

int64_t reduction_bias_ctas(const Problem& problem, const Device& device);

} // namespace tconv3d::cuda
