#pragma once

#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tconv3d/epilogue.hpp"

namespace tconv3d::ops {

/// epilogue_bwd in PyTorch's own ops, so that it can be differentiated again: the gradients of the preactivation and
/// of the operands.
std::tuple<at::Tensor, std::vector<at::Tensor>> differentiable_epilogue_bwd(const at::Tensor& grad_dst,
                                                                            const at::Tensor& preactivation,
                                                                            const Epilogue& epilogue,
                                                                            const std::vector<at::Tensor>& operands);

} // namespace tconv3d::ops
