#pragma once

#include <string>
#include <vector>

#include "tconv3d/epilogue.hpp"
#include "tconv3d/plan.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cuda {

/// What kernels/output.cuh needs to know: element types, constants, and the epilogue printed as a device function.
std::string output_source(const Problem& problem, const Epilogue& epilogue, bool has_bias, bool saves_preactivation);

/// The kernel argument Output of kernels/output.cuh, byte for byte: a row of pointers.
std::vector<const void*> output_argument(const Epilogue& epilogue, const Arguments& arguments);

} // namespace tconv3d::cuda
