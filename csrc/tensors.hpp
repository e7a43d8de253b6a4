#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "convert.hpp"

/// Tensors as the core takes them: dense, in the problem's layout.
namespace tconv3d::ops {

at::Tensor make(const std::vector<int64_t>& sizes, const at::Tensor& like, at::MemoryFormat format);

/// An output that was not asked for.
at::Tensor nothing(const at::Tensor& like);

/// Residuals in the layout of dst, channel values one after the other.
std::vector<at::Tensor> dense(at::TensorList operands, const Problem& problem);

std::vector<const void*> pointers(const std::vector<at::Tensor>& tensors);

} // namespace tconv3d::ops
