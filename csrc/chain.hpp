#pragma once

#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tconv3d/epilogue.hpp"

/// The epilogue in PyTorch's own ops.
namespace tconv3d::ops {

/// One value per channel, shaped to meet the channels of (N, C, D, H, W).
at::Tensor per_channel(const at::Tensor& values);

/// A step of the chain whose tensors are `operands`.
at::Tensor apply_step(const Step& step, const at::Tensor& x, const std::vector<at::Tensor>& operands);

/// epilogue_bwd that can be differentiated again: the gradients of the preactivation and of the operands.
std::tuple<at::Tensor, std::vector<at::Tensor>> differentiable_epilogue_bwd(const at::Tensor& grad_dst,
                                                                            const at::Tensor& preactivation,
                                                                            const Epilogue& epilogue,
                                                                            const std::vector<at::Tensor>& operands);

} // namespace tconv3d::ops
