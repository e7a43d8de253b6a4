#pragma once

/// 3D transposed convolution: describe a Problem, make a Plan, execute it.
#include "tconv3d/epilogue.hpp"
#include "tconv3d/epilogue_bwd.hpp"
#include "tconv3d/error.hpp"
#include "tconv3d/executor.hpp"
#include "tconv3d/plan.hpp"
#include "tconv3d/problem.hpp"
