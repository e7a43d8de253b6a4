#pragma once

#include <memory>

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

} // namespace tconv3d::ops
