#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops.hpp"
#include "tconv3d/cuda.hpp"

namespace tconv3d::ops {

/// What carries a problem out: a plan, or PyTorch's operator where there is none.
struct CudaPlan {
    Epilogue epilogue;
    std::optional<cuda::Plan> plan;
    std::string reason;            ///< why there is no plan
    std::vector<Rejection> failed; ///< implementations whose kernel this machine could not run
};

/// The plan of the problem on this device, made at the first call. Threads may ask at once. A warning says why
/// PyTorch's operator computes.
std::shared_ptr<const CudaPlan> cuda_plan(const Problem& problem, Text epilogue, int device);

/// What follows where the kernel of `before` has failed, for this call and all later ones; a warning says why. An
/// implementation that is forced keeps its error.
std::shared_ptr<const CudaPlan> next_cuda_plan(const Problem& problem, Text epilogue, int device,
                                               const CudaPlan& before, const KernelFailure& failure);

/// The key of a plan on this device.
std::string cuda_plan_key(const Problem& problem, Text epilogue, int device);

/// Of all problems that go the same way for the same reason, only the first is told.
void warn_once(const std::string& way, const std::string& message);

/// Has all plans made again.
void forget_cuda_plans();

/// Whether tconv3d's own kernels compute the backward pass: TCONV3D_CUDA_GRADIENTS=0 leaves it to PyTorch's operators.
bool takes_gradients();

/// Why PyTorch's operator computes the problem on a GPU; empty where a plan does.
std::string left_to_pytorch(const Problem& problem);

} // namespace tconv3d::ops
