#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "tconv3d/error.hpp"
#include "tconv3d/problem.hpp"
#include "text.hpp"

/// The ops of torch.ops.tconv3d as C++ functions, and the way from a function to an op.
namespace tconv3d::ops {

// PyTorch's own types of `Tensor?` and `str`. Their names moved from c10 to std between 2.1 and today; an IValue
// always knows them.
using OptionalTensor = std::decay_t<decltype(std::declval<c10::IValue&>().toOptional<at::Tensor>())>;
using Text = decltype(std::declval<const c10::IValue&>().toStringView());

/// The integer arguments that all convolution ops share.
struct Geometry {
    Extents stride;
    Extents padding;
    Extents output_padding;
    int64_t groups;
    Extents dilation;

    Geometry(at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef output_padding, int64_t groups,
             at::IntArrayRef dilation);

    /// One list of integers, which is what an autograd node can keep.
    std::vector<int64_t> packed() const;
    static Geometry unpacked(at::IntArrayRef packed);
};

/// Three values in the order d, h, w; anything else is an error that names the argument.
Extents extents(const char* argument, at::IntArrayRef values);

/// The ops, called through PyTorch's dispatcher; `operands` decides between an op's overloads.
at::Tensor fwd(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias, const Geometry& geometry,
               Text epilogue, at::TensorList operands);
std::tuple<at::Tensor, at::Tensor> fwd_saved(const at::Tensor& src, const at::Tensor& weight,
                                             const OptionalTensor& bias, const Geometry& geometry, Text epilogue,
                                             at::TensorList operands);
at::Tensor bwd_data(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry);
std::tuple<at::Tensor, at::Tensor> bwd_weight(const at::Tensor& src, const at::Tensor& grad_dst,
                                              c10::SymIntArrayRef kernel, const Geometry& geometry, bool with_bias);
/// The gradients of the preactivation, of the operands and of the bias; the last has no elements unless it is asked
/// for.
using EpilogueBwdResults = std::tuple<at::Tensor, std::vector<at::Tensor>, at::Tensor>;
EpilogueBwdResults epilogue_bwd(const at::Tensor& grad_dst, const at::Tensor& saved, Text epilogue,
                                at::TensorList operands, bool with_bias);

/// The core's message with PyTorch's names of the arguments: input for src, output for dst.
std::string in_pytorch_words(const std::string& message);

/// Runs the body; bad input becomes PyTorch's RuntimeError.
template <typename Body>
auto translating_errors(Body&& body) {
    try {
        return body();
    } catch (const Error& error) {
        TORCH_CHECK(false, printable(in_pytorch_words(error.what())));
    }
}

// A kernel takes a Geometry and any number of operands; an op takes the schema's loose integers and has an overload
// without operands. These turn the first into the second.

template <auto kernel>
auto fwd_operands_kernel(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef output_padding,
                         int64_t groups, at::IntArrayRef dilation, Text epilogue, at::TensorList operands) {
    const Geometry geometry(stride, padding, output_padding, groups, dilation);
    return translating_errors([&] { return kernel(src, weight, bias, geometry, epilogue, operands); });
}

template <auto kernel>
auto fwd_kernel(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias, at::IntArrayRef stride,
                at::IntArrayRef padding, at::IntArrayRef output_padding, int64_t groups, at::IntArrayRef dilation,
                Text epilogue) {
    return fwd_operands_kernel<kernel>(src, weight, bias, stride, padding, output_padding, groups, dilation, epilogue,
                                       {});
}

template <auto kernel>
auto bwd_data_kernel(const at::Tensor& grad_dst, const at::Tensor& weight, at::IntArrayRef stride,
                     at::IntArrayRef padding, at::IntArrayRef output_padding, int64_t groups,
                     at::IntArrayRef dilation) {
    const Geometry geometry(stride, padding, output_padding, groups, dilation);
    return translating_errors([&] { return kernel(grad_dst, weight, geometry); });
}

/// Sizes: at::IntArrayRef, or c10::SymIntArrayRef where the kernel extents may be symbolic.
template <auto kernel, typename Sizes>
auto bwd_weight_kernel(const at::Tensor& src, const at::Tensor& grad_dst, Sizes kernel_extents, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef output_padding, int64_t groups,
                       at::IntArrayRef dilation, bool with_bias) {
    const Geometry geometry(stride, padding, output_padding, groups, dilation);
    return translating_errors([&] { return kernel(src, grad_dst, kernel_extents, geometry, with_bias); });
}

template <auto kernel>
EpilogueBwdResults epilogue_bwd_operands_kernel(const at::Tensor& grad_dst, const at::Tensor& saved, Text epilogue,
                                                at::TensorList operands, bool with_bias) {
    return translating_errors([&] { return kernel(grad_dst, saved, epilogue, operands, with_bias); });
}

template <auto kernel>
std::tuple<at::Tensor, at::Tensor> epilogue_bwd_kernel(const at::Tensor& grad_dst, const at::Tensor& saved,
                                                       Text epilogue, bool with_bias) {
    auto [grad_preactivation, grad_operands, grad_bias] =
        epilogue_bwd_operands_kernel<kernel>(grad_dst, saved, epilogue, {}, with_bias);
    return {grad_preactivation, grad_bias};
}

// Both overloads of an op that takes operands.

template <auto kernel>
void impl_fwd(torch::Library& library) {
    library.impl("fwd", fwd_kernel<kernel>);
    library.impl("fwd.operands", fwd_operands_kernel<kernel>);
}

template <auto kernel>
void impl_fwd_saved(torch::Library& library) {
    library.impl("fwd_saved", fwd_kernel<kernel>);
    library.impl("fwd_saved.operands", fwd_operands_kernel<kernel>);
}

template <auto kernel>
void impl_epilogue_bwd(torch::Library& library) {
    library.impl("epilogue_bwd", epilogue_bwd_kernel<kernel>);
    library.impl("epilogue_bwd.operands", epilogue_bwd_operands_kernel<kernel>);
}

} // namespace tconv3d::ops
