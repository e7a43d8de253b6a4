#pragma once

#include <cstdint>
#include <string>

#include "tconv3d/epilogue.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cuda {

/// Whether the epilogue is called for each output (kCallsEpilogue): its code at all outputs that a thread has written
/// out would take NVRTC more than a second.
bool calls_epilogue(const Epilogue& epilogue, int64_t thread_outputs);

/// `Compute epilogue(Compute x, const void* const* operands, int channel, int64_t index)` as device code. The functions
/// of its steps are those of kernels/finish/steps.cuh; a chain of very many steps calls each of them.
std::string epilogue_source(const Epilogue& epilogue, DType dtype);

/// Whether the chain's backward is called for each element (kCallsEpilogue), for the same reason.
bool calls_epilogue_bwd(const Epilogue& epilogue, int64_t thread_outputs);

/// `Compute epilogue_bwd(Compute grad, Compute saved, const Compute* values, Compute* grad_values)` as device code: the
/// gradient of the preactivation from that of dst, from what Epilogue::saved() names and from the values of the
/// operands, whose gradients go to grad_values. Functions are those of kernels/finish/step_derivatives.cuh too.
std::string epilogue_bwd_source(const Epilogue& epilogue, DType dtype);

} // namespace tconv3d::cuda
