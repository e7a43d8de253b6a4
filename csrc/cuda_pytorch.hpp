#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "tconv3d/problem.hpp"

/// Gradients on a GPU by PyTorch's own operators. The tensors fit the problem, which is valid.
namespace tconv3d::ops {

at::Tensor pytorch_bwd_data(const Problem& problem, const at::Tensor& grad_dst, const at::Tensor& weight);

std::tuple<at::Tensor, at::Tensor> pytorch_bwd_weight(const Problem& problem, const at::Tensor& src,
                                                      const at::Tensor& grad_dst, bool with_bias);

} // namespace tconv3d::ops
