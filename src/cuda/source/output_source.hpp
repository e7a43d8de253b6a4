#pragma once

#include <string>
#include <vector>

#include "tconv3d/epilogue.hpp"
#include "tconv3d/plan.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cuda {

/// What a kernel makes of its accumulators beside the epilogue.
struct ResultForm {
    bool has_bias = false;
    bool saves_preactivation = false;
};

/// The types of elements and of sums: what kernels/base/storage.cuh needs to know.
std::string element_types(const Problem& problem);

/// What kernels/finish/finish.cuh needs to know: element types, constants, and the epilogue printed as a device
/// function. `thread_outputs` is how many outputs of a thread the kernel has written out, one after another.
std::string output_source(const Problem& problem, const Epilogue& epilogue, const ResultForm& form,
                          int64_t thread_outputs);

/// The kernel argument Output of kernels/finish/finish.cuh: an OutputTensors with room for the epilogue's operands.
/// `out` is the tensor that the direction writes.
std::vector<const void*> output_argument(const Epilogue& epilogue, const Arguments& arguments, void* out);

} // namespace tconv3d::cuda
