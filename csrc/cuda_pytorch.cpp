#include "cuda_pytorch.hpp"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "chain.hpp"
#include "tensors.hpp"

namespace tconv3d::ops {

namespace {

/// How many strides an output padding is long: less than one but for dilated problems. PyTorch's gradients expect the
/// rest; a whole stride is the same as one more src voxel that holds zero (docs/math.md).
Extents whole_strides(const Problem& problem) {
    Extents strides;
    for (size_t i = 0; i < 3; ++i) strides[i] = problem.output_padding[i] / problem.stride[i];
    return strides;
}

} // namespace

at::Tensor pytorch_fwd(const Problem& problem, const at::Tensor& src, const at::Tensor& weight,
                       const OptionalTensor& bias, const Epilogue& epilogue, at::TensorList operands,
                       at::Tensor* preactivation) {
    at::Tensor sums = at::convolution(src, weight, bias, problem.stride, problem.padding, problem.dilation,
                                      /*transposed=*/true, problem.output_padding, problem.groups)
                          .contiguous(format(problem));
    if (preactivation != nullptr) *preactivation = sums;
    if (epilogue.steps().empty()) return sums;
    const std::vector<at::Tensor> tensors = operands.vec();
    at::Tensor dst = sums.to(problem.dtype == DType::f64 ? at::kDouble : at::kFloat);
    for (const Step& step : epilogue.steps()) dst = apply_step(step, dst, tensors);
    return dst.to(src.scalar_type()).contiguous(format(problem));
}

/// The gradient of src is an ordinary convolution of grad_dst.
at::Tensor pytorch_bwd_data(const Problem& problem, const at::Tensor& grad_dst, const at::Tensor& weight) {
    if (problem.batch == 0) return make(src_sizes(problem), grad_dst, format(problem));
    constexpr Extents kNone = {0, 0, 0};
    at::Tensor grad_src = at::convolution(grad_dst, weight, {}, problem.stride, problem.padding, problem.dilation,
                                          /*transposed=*/false, kNone, problem.groups);
    for (int64_t i = 0; i < 3; ++i) grad_src = grad_src.narrow(i + 2, 0, problem.src[static_cast<size_t>(i)]);
    return grad_src.contiguous(format(problem));
}

std::tuple<at::Tensor, at::Tensor> pytorch_bwd_weight(const Problem& problem, const at::Tensor& src,
                                                      const at::Tensor& grad_dst, bool with_bias) {
    const std::vector<int64_t> bias_sizes = {problem.dst_channels};
    if (problem.batch == 0)
        return {at::zeros(weight_sizes(problem), src.options()),
                with_bias ? at::zeros(bias_sizes, src.options()) : nothing(src)};

    const Extents more = whole_strides(problem);
    Extents output_padding = problem.output_padding;
    for (size_t i = 0; i < 3; ++i) output_padding[i] -= more[i] * problem.stride[i];
    const bool pads = more != Extents{0, 0, 0};
    const at::Tensor padded = pads ? at::constant_pad_nd(src, {0, more[2], 0, more[1], 0, more[0]}) : src;
    const at::Tensor weight = at::empty(weight_sizes(problem), src.options()); // for its sizes alone
    const auto [grad_src, grad_weight, grad_bias] = at::convolution_backward(
        grad_dst, padded.contiguous(format(problem)), weight, bias_sizes, problem.stride, problem.padding,
        problem.dilation, /*transposed=*/true, output_padding, problem.groups, {false, true, with_bias});
    return {grad_weight.contiguous(), with_bias ? grad_bias : nothing(src)};
}

} // namespace tconv3d::ops
