#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "convert.hpp"
#include "tconv3d/epilogue_bwd.hpp"

/// Tensors as the core takes them: dense, in the problem's layout.
namespace tconv3d::ops {

at::Tensor make(const std::vector<int64_t>& sizes, const at::Tensor& like, at::MemoryFormat format);

/// An output that was not asked for.
at::Tensor nothing(const at::Tensor& like);

/// Residuals in the layout of dst, channel values one after the other.
std::vector<at::Tensor> dense(at::TensorList operands, const Problem& problem);

std::vector<const void*> pointers(const std::vector<at::Tensor>& tensors);

/// A dense tensor that begins at a multiple of that many bytes; a view may begin anywhere.
at::Tensor aligned(const at::Tensor& dense, uintptr_t alignment);

/// One value per channel. PyTorch's sum of halves rounds on its way, so that it is told to sum in fp32.
at::Tensor sum_of_channels(const at::Tensor& grad);

/// The tensors of an epilogue's backward as the core takes them, and new ones for what it writes.
class EpilogueBwdTensors {
public:
    EpilogueBwdTensors(const Problem& problem, const Epilogue& epilogue, const at::Tensor& grad_dst,
                       const at::Tensor& saved, at::TensorList operands, uintptr_t alignment);

    const EpilogueGradients& pointers() const { return pointers_; }
    const at::Tensor& grad_preactivation() const { return grad_preactivation_; }
    const std::vector<at::Tensor>& grad_operands() const { return grad_operands_; }

private:
    at::Tensor grad_dst_;
    at::Tensor saved_;
    std::vector<at::Tensor> operands_;
    at::Tensor grad_preactivation_;
    std::vector<at::Tensor> grad_operands_;
    EpilogueGradients pointers_;
};

} // namespace tconv3d::ops
