#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cuda/kernels/shared/direct_arguments.cuh"
#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"
#include "cuda/source/output_source.hpp"

/// The family that takes every problem in every direction, by plain sums (kernels/direct_*.cuh). No table, no
/// workspace.
namespace tconv3d::cuda {

Answer answer_direct(const Question& question);

/// The kernel of the problem's direction. bwd_weight has neither bias nor preactivation.
KernelRequest direct_request(const Problem& problem, const Epilogue& epilogue, const ResultForm& form);

/// What the preludes of all directions begin with: element types, geometry and threads.
std::string direct_prelude(const Problem& problem, const Epilogue& epilogue, const ResultForm& form);
constexpr int64_t kDirectThreads = 128;

VoxelExtents voxel_extents(const Extents& extents);

// ---- fwd and bwd_data: a correlation ----

std::unique_ptr<Kernel> prepare_direct_correlation(const Problem& problem, const Epilogue& epilogue,
                                                   const Device& device);
KernelRequest direct_correlation_request(const Problem& problem, const Epilogue& epilogue, const ResultForm& form);
/// All but the tensors.
DirectCorrelationArguments direct_correlation_arguments(const Problem& problem);
/// Result channels of a thread.
int64_t direct_thread_channels(const Problem& problem);

// ---- bwd_weight: a sum over all voxels ----

std::unique_ptr<Kernel> prepare_direct_bwd_weight(const Problem& problem, const Device& device);
KernelRequest direct_bwd_weight_request(const Problem& problem);
/// All but the tensors.
DirectBwdWeightArguments direct_bwd_weight_arguments(const Problem& problem);

} // namespace tconv3d::cuda
