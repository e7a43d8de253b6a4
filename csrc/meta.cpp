#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "convert.hpp"
#include "tensors.hpp"
#include "text.hpp"

/// Sizes and strides without data. Known sizes go through the same Problem, and the same errors, as on the CPU; only
/// symbolic ones (torch.compile with dynamic shapes) are expressions of their own.
namespace tconv3d::ops {

namespace {

using SymSizes = std::vector<c10::SymInt>;

bool has_known_sizes(const at::Tensor& tensor) {
    return !tensor.defined() || c10::asIntArrayRefSlowOpt(tensor.sym_sizes()).has_value();
}

bool have_known_sizes(at::TensorList tensors) {
    return std::all_of(tensors.begin(), tensors.end(), has_known_sizes);
}

/// dst along dimension i for src = 1; each further src index adds one stride.
c10::SymInt first_dst(const c10::SymInt& kernel, const Geometry& geometry, size_t i) {
    return (kernel - 1) * geometry.dilation[i] + geometry.output_padding[i] + 1 - 2 * geometry.padding[i];
}

SymSizes symbolic_dst_sizes(const at::Tensor& src, const at::Tensor& weight, const Geometry& geometry) {
    SymSizes sizes = {src.sym_size(0), weight.sym_size(1) * geometry.groups};
    for (size_t i = 0; i < 3; ++i) {
        const auto dim = static_cast<int64_t>(i) + 2;
        sizes.push_back((src.sym_size(dim) - 1) * geometry.stride[i] + first_dst(weight.sym_size(dim), geometry, i));
    }
    return sizes;
}

SymSizes symbolic_src_sizes(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    SymSizes sizes = {grad_dst.sym_size(0), weight.sym_size(0)};
    for (size_t i = 0; i < 3; ++i) {
        const auto dim = static_cast<int64_t>(i) + 2;
        const c10::SymInt beyond = grad_dst.sym_size(dim) - first_dst(weight.sym_size(dim), geometry, i);
        sizes.push_back(beyond / geometry.stride[i] + 1);
    }
    return sizes;
}

at::Tensor make_symbolic(const SymSizes& sizes, const at::Tensor& like, at::MemoryFormat format) {
    return at::empty_symint(sizes, like.options().memory_format(format));
}

at::Tensor fwd_meta(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                    const Geometry& geometry, Text epilogue, at::TensorList operands) {
    check_fwd(src, weight, bias, operands);
    const at::MemoryFormat dst_format = common_format(src, weight);
    if (!have_known_sizes({src, weight, bias.value_or(at::Tensor())}) || !have_known_sizes(operands)) {
        TORCH_CHECK(src.sym_size(1) == weight.sym_size(0),
                    text("expected input to have ", weight.sym_size(0), " channels, but got ", src.sym_size(1)));
        return make_symbolic(symbolic_dst_sizes(src, weight, geometry), src, dst_format);
    }
    const Problem problem = fwd_problem(src, weight, bias, geometry);
    checked_epilogue(epilogue, operands, problem, src);
    return make(dst_sizes(problem), src, dst_format);
}

std::tuple<at::Tensor, at::Tensor> fwd_saved_meta(const at::Tensor& src, const at::Tensor& weight,
                                                  const OptionalTensor& bias, const Geometry& geometry, Text epilogue,
                                                  at::TensorList operands) {
    at::Tensor dst = fwd_meta(src, weight, bias, geometry, epilogue, operands);
    const bool saves = Epilogue::parse({epilogue.data(), epilogue.size()}).saved() == Saved::preactivation;
    return {dst, saves ? at::empty_like(dst, dst.options().memory_format(common_format(src, weight))) : nothing(src)};
}

at::Tensor bwd_data_meta(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    check_pair("grad_output", grad_dst, "weight", weight);
    const at::MemoryFormat src_format = common_format(grad_dst, weight);
    if (!have_known_sizes({grad_dst, weight}))
        return make_symbolic(symbolic_src_sizes(grad_dst, weight, geometry), grad_dst, src_format);
    return make(src_sizes(bwd_data_problem(grad_dst, weight, geometry)), grad_dst, src_format);
}

std::tuple<at::Tensor, at::Tensor> bwd_weight_meta(const at::Tensor& src, const at::Tensor& grad_dst,
                                                   c10::SymIntArrayRef kernel, const Geometry& geometry,
                                                   bool with_bias) {
    check_pair("input", src, "grad_output", grad_dst);
    const auto known_kernel = c10::asIntArrayRefSlowOpt(kernel);
    if (have_known_sizes({src, grad_dst}) && known_kernel.has_value())
        bwd_weight_problem(src, grad_dst, *known_kernel, geometry);
    const c10::SymInt dst_channels = grad_dst.sym_size(1);
    SymSizes sizes = {src.sym_size(1), dst_channels / geometry.groups};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    return {make_symbolic(sizes, src, at::MemoryFormat::Contiguous),
            with_bias ? make_symbolic(SymSizes{dst_channels}, src, at::MemoryFormat::Contiguous) : nothing(src)};
}

EpilogueBwdResults epilogue_bwd_meta(const at::Tensor& grad_dst, const at::Tensor& saved, Text epilogue_text,
                                     at::TensorList operands, bool with_bias) {
    if (have_known_sizes({grad_dst, saved}) && have_known_sizes(operands)) {
        const Epilogue epilogue = checked_epilogue(epilogue_text, operands, epilogue_problem(grad_dst), grad_dst);
        check_saved(saved, epilogue, grad_dst);
    }
    const at::MemoryFormat format = common_format(grad_dst, grad_dst);
    std::vector<at::Tensor> grad_operands;
    for (const at::Tensor& operand : operands) {
        const bool residual = operand.dim() > 1; // which broadcasts, and has a gradient of the size of grad_dst
        const at::MemoryFormat operand_format = residual ? format : at::MemoryFormat::Contiguous;
        grad_operands.push_back(
            at::empty_like(residual ? grad_dst : operand, grad_dst.options().memory_format(operand_format)));
    }
    const SymSizes channels = {grad_dst.sym_size(1)};
    return {at::empty_like(grad_dst, grad_dst.options().memory_format(format)), grad_operands,
            with_bias ? make_symbolic(channels, grad_dst, at::MemoryFormat::Contiguous) : nothing(grad_dst)};
}

} // namespace

TORCH_LIBRARY_IMPL(tconv3d, Meta, m) {
    impl_fwd<fwd_meta>(m);
    impl_fwd_saved<fwd_saved_meta>(m);
    m.impl("bwd_data", bwd_data_kernel<bwd_data_meta>);
    m.impl("bwd_weight", bwd_weight_kernel<bwd_weight_meta, c10::SymIntArrayRef>);
    impl_epilogue_bwd<epilogue_bwd_meta>(m);
}

} // namespace tconv3d::ops
