#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

#include "ops.hpp"
#include "tconv3d/epilogue.hpp"
#include "tconv3d/problem.hpp"

/// The directions by PyTorch's own operators, on any device. The tensors fit the problem, which is valid.
namespace tconv3d::ops {

/// The epilogue is applied step by step, in fp32 or fp64. preactivation: where to leave it; null when nobody asks.
at::Tensor pytorch_fwd(const Problem& problem, const at::Tensor& src, const at::Tensor& weight,
                       const OptionalTensor& bias, const Epilogue& epilogue, at::TensorList operands,
                       at::Tensor* preactivation);

at::Tensor pytorch_bwd_data(const Problem& problem, const at::Tensor& grad_dst, const at::Tensor& weight);

std::tuple<at::Tensor, at::Tensor> pytorch_bwd_weight(const Problem& problem, const at::Tensor& src,
                                                      const at::Tensor& grad_dst, bool with_bias);

} // namespace tconv3d::ops
