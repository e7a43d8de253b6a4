#pragma once

#include <memory>
#include <string>

#include "ops.hpp"
#include "tconv3d/cuda.hpp"

namespace tconv3d::ops {

struct CudaPlan {
    Epilogue epilogue;
    cuda::Plan plan;
};

/// The plan of the problem on this device, made at the first call. Threads may ask at once.
std::shared_ptr<const CudaPlan> cuda_plan(const Problem& problem, Text epilogue, int device);

/// Has all of them made again.
void forget_cuda_plans();

/// Why PyTorch's operator computes the problem on a GPU; empty where a plan does.
std::string left_to_pytorch(const Problem& problem);

} // namespace tconv3d::ops
