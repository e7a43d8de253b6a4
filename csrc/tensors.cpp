#include "tensors.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace tconv3d::ops {

at::Tensor make(const std::vector<int64_t>& sizes, const at::Tensor& like, at::MemoryFormat format) {
    return at::empty(sizes, like.options().memory_format(format));
}

at::Tensor nothing(const at::Tensor& like) {
    return at::empty({0}, like.options());
}

std::vector<at::Tensor> dense(at::TensorList operands, const Problem& problem) {
    std::vector<at::Tensor> tensors;
    tensors.reserve(operands.size());
    const std::vector<int64_t> sizes = operands.empty() ? std::vector<int64_t>() : dst_sizes(problem);
    for (const at::Tensor& operand : operands)
        tensors.push_back(operand.dim() == 1 ? operand.contiguous()
                                             : operand.expand(sizes).contiguous(format(problem)));
    return tensors;
}

std::vector<const void*> pointers(const std::vector<at::Tensor>& tensors) {
    std::vector<const void*> result;
    result.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) result.push_back(tensor.data_ptr());
    return result;
}

at::Tensor aligned(const at::Tensor& dense, uintptr_t alignment) {
    return reinterpret_cast<uintptr_t>(dense.data_ptr()) % alignment == 0 ? dense : dense.clone();
}

at::Tensor sum_of_channels(const at::Tensor& grad) {
    const at::ScalarType type = grad.scalar_type();
    const bool is_half = type == at::kBFloat16 || type == at::kHalf;
    return is_half ? grad.sum({0, 2, 3, 4}, /*keepdim=*/false, at::kFloat).to(type) : grad.sum({0, 2, 3, 4});
}

EpilogueBwdTensors::EpilogueBwdTensors(const Problem& problem, const Epilogue& epilogue, const at::Tensor& grad_dst,
                                       const at::Tensor& saved, at::TensorList operands, uintptr_t alignment)
    : grad_dst_(aligned(grad_dst.contiguous(format(problem)), alignment)), operands_(dense(operands, problem)),
      grad_preactivation_(make(dst_sizes(problem), grad_dst, format(problem))) {
    if (epilogue.saved() != Saved::nothing) {
        saved_ = aligned(saved.contiguous(format(problem)), alignment);
        pointers_.saved = saved_.data_ptr();
    }
    for (at::Tensor& operand : operands_) {
        operand = aligned(operand, alignment);
        grad_operands_.push_back(operand.dim() == 1 ? at::empty_like(operand)
                                                    : make(dst_sizes(problem), grad_dst, format(problem)));
        pointers_.grad_operands.push_back(grad_operands_.back().data_ptr());
    }
    pointers_.grad_dst = grad_dst_.data_ptr();
    pointers_.operands = ops::pointers(operands_);
    pointers_.grad_preactivation = grad_preactivation_.data_ptr();
}

} // namespace tconv3d::ops
