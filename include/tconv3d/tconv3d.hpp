#pragma once

/// 3D transposed convolution: describe a Problem, make a Plan, or a cuda::Plan for a GPU, and execute it. No header of
/// CUDA is needed.
#include "tconv3d/cuda.hpp"
#include "tconv3d/cuda_device.hpp"
#include "tconv3d/epilogue.hpp"
#include "tconv3d/epilogue_bwd.hpp"
#include "tconv3d/error.hpp"
#include "tconv3d/executor.hpp"
#include "tconv3d/plan.hpp"
#include "tconv3d/problem.hpp"
