#pragma once

#include <optional>

#include "tensors.hpp"

namespace tconv3d::ops {

/// What the kernels read and write at once, in bytes.
constexpr uintptr_t kCudaAlignment = 16;

/// epilogue_bwd in one pass, on PyTorch's current stream. The tensors fit the epilogue, whose text is `text`. Nothing
/// where this machine cannot run the kernels; a warning says why.
std::optional<EpilogueBwdResults> planned_epilogue_bwd(const at::Tensor& grad_dst, const at::Tensor& saved,
                                                       const Epilogue& epilogue, Text text, at::TensorList operands,
                                                       bool with_bias);

} // namespace tconv3d::ops
