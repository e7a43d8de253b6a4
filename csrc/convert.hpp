#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include "ops.hpp"
#include "tconv3d/epilogue.hpp"
#include "tconv3d/problem.hpp"

/// From tensors to problems, and back to the sizes of tensors. Bad tensors are errors that name them as PyTorch's users
/// do: input and grad_output for what is src and grad_dst below.
namespace tconv3d::ops {

/// The output rule of PyTorch's convolutions: channels_last_3d when either tensor has its strides; never in float64.
at::MemoryFormat common_format(const at::Tensor& first, const at::Tensor& second);
Layout layout(at::MemoryFormat format);
at::MemoryFormat format(const Problem& problem);

/// Rank, dtype and device of each direction's tensors; sizes are left to the problem.
void check_fwd(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias, at::TensorList operands);
void check_pair(const char* first_name, const at::Tensor& first, const char* second_name, const at::Tensor& second);

/// Valid problems, from tensors whose sizes are known.
Problem fwd_problem(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                    const Geometry& geometry);
Problem bwd_data_problem(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry);
Problem bwd_weight_problem(const at::Tensor& src, const at::Tensor& grad_dst, at::IntArrayRef kernel,
                           const Geometry& geometry);
/// A problem whose dst is grad_dst: an epilogue's backward knows no convolution.
Problem epilogue_problem(const at::Tensor& grad_dst);

Epilogue parsed_epilogue(Text text);
/// The chain's tensors fit the problem's dst, residuals by broadcasting; `like` has their dtype and device.
void check_operands(const Epilogue& epilogue, at::TensorList operands, const Problem& problem, const at::Tensor& like);
/// Both of these.
Epilogue checked_epilogue(Text text, at::TensorList operands, const Problem& problem, const at::Tensor& like);
/// Backward's `saved` argument: shaped like dst, unless the chain needs nothing.
void check_saved(const at::Tensor& saved, const Epilogue& epilogue, const at::Tensor& grad_dst);

std::vector<int64_t> src_sizes(const Problem& problem);
std::vector<int64_t> dst_sizes(const Problem& problem);
std::vector<int64_t> weight_sizes(const Problem& problem);

} // namespace tconv3d::ops
