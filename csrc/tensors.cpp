#include "tensors.hpp"

#include <ATen/ops/empty.h>

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
        tensors.push_back(operand.dim() == 1 ? operand.contiguous() : operand.expand(sizes).contiguous(format(problem)));
    return tensors;
}

std::vector<const void*> pointers(const std::vector<at::Tensor>& tensors) {
    std::vector<const void*> result;
    result.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) result.push_back(tensor.data_ptr());
    return result;
}

} // namespace tconv3d::ops
