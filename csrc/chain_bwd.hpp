#pragma once

#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tconv3d/epilogue.hpp"

namespace tconv3d::ops {

/// epilogue_bwd in PyTorch's own ops, for devices without a kernel of ours. `saved` is what Epilogue::saved() asks for.
/// Returns the gradients of the preactivation and of the operands.
std::tuple<at::Tensor, std::vector<at::Tensor>> chain_bwd(const at::Tensor& grad_dst, const at::Tensor& saved,
                                                          const Epilogue& epilogue, at::TensorList operands);

} // namespace tconv3d::ops
