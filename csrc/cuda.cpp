#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "chain_bwd.hpp"
#include "convert.hpp"
#include "cuda_plans.hpp"
#include "cuda_pytorch.hpp"
#include "cuda_stream.hpp"
#include "tensors.hpp"

/// The CUDA kernels: the core's plans, on PyTorch's current stream and with PyTorch's allocator, or PyTorch's own
/// operators where left_to_pytorch() says so.
namespace tconv3d::ops {

namespace {

/// PyTorch's switch for tf32 in convolutions. It has had three signatures; the later two take what is asked about.
struct Tf32Switch {
    using Plain = bool (at::Context::*)() const;
    using Named = bool (at::Context::*)(const std::string&) const;
    template <typename Operation>
    using Typed = bool (at::Context::*)(Operation) const;

    static bool ask(Plain allows) { return (at::globalContext().*allows)(); }
    static bool ask(Named allows) { return (at::globalContext().*allows)("conv"); }
    template <typename Operation>
    static bool ask(Typed<Operation> allows) {
        return (at::globalContext().*allows)(Operation::value_type::CONV);
    }
};

MathMode math_mode(DType dtype) {
    const bool tf32 = dtype == DType::f32 && Tf32Switch::ask(&at::Context::allowTF32CuDNN);
    return tf32 ? MathMode::tf32 : MathMode::full;
}

/// The kernels read 16 bytes at a time; a view may begin anywhere.
at::Tensor aligned(const at::Tensor& dense) {
    constexpr uintptr_t kAlignment = 16;
    return reinterpret_cast<uintptr_t>(dense.data_ptr()) % kAlignment == 0 ? dense : dense.clone();
}

void execute(const cuda::Plan& plan, const Arguments& arguments, c10::Device device) {
    const auto bytes = static_cast<int64_t>(plan.workspace_bytes());
    if (bytes == 0) return plan.execute(arguments, current_stream(device.index()), nullptr);
    // Freed when this returns, before the work is done: the allocator gives it to later work of the same stream alone.
    const at::Tensor workspace = at::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
    plan.execute(arguments, current_stream(device.index()), workspace.data_ptr());
}

/// The tensors of a fwd call.
struct FwdCall {
    const Problem& problem;
    const at::Tensor& src;
    const at::Tensor& weight;
    const OptionalTensor& bias;
    at::TensorList operands;
    at::Tensor* preactivation; ///< where to leave it; null when nobody asks
};

at::Tensor planned_fwd(const cuda::Plan& plan, const FwdCall& call) {
    const auto& [problem, src, weight, bias, operands, preactivation] = call;
    const at::Tensor dst = make(dst_sizes(problem), src, format(problem));
    if (preactivation != nullptr) *preactivation = at::empty_like(dst);
    if (problem.batch == 0) return dst;

    const at::Tensor dense_src = aligned(src.contiguous(format(problem)));
    const bool channels_last = plan.takes_channels_last_weight() && !weight.is_contiguous() &&
                               weight.is_contiguous(at::MemoryFormat::ChannelsLast3d);
    const at::Tensor dense_weight = aligned(channels_last ? weight : weight.contiguous());
    const at::Tensor dense_bias = bias.has_value() && bias->defined() ? aligned(bias->contiguous()) : at::Tensor();
    std::vector<at::Tensor> dense_operands = dense(operands, problem);
    for (at::Tensor& operand : dense_operands) operand = aligned(operand);

    Arguments arguments;
    arguments.src = dense_src.data_ptr();
    arguments.weight = dense_weight.data_ptr();
    arguments.weight_channels_last = channels_last;
    if (dense_bias.defined()) arguments.bias = dense_bias.data_ptr();
    arguments.operands = pointers(dense_operands);
    arguments.dst = dst.data_ptr();
    if (preactivation != nullptr) arguments.preactivation = preactivation->data_ptr();
    execute(plan, arguments, src.device());
    return dst;
}

/// preactivation: where to leave it if the epilogue saves it; null when nobody asks.
at::Tensor run_fwd(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                   const Geometry& geometry, Text epilogue, at::TensorList operands, at::Tensor* preactivation) {
    const c10::DeviceGuard guard(src.device());
    Problem problem = fwd_problem(src, weight, bias, geometry);
    problem.math = math_mode(problem.dtype);
    auto prepared = cuda_plan(problem, epilogue, src.device().index());
    check_operands(prepared->epilogue, operands, problem, src);
    const bool saves = prepared->epilogue.saved() == Saved::preactivation;
    const FwdCall call{problem, src, weight, bias, operands, saves ? preactivation : nullptr};
    while (prepared->plan) {
        try {
            return planned_fwd(*prepared->plan, call);
        } catch (const KernelFailure& failure) {
            prepared = next_cuda_plan(problem, epilogue, src.device().index(), *prepared, failure);
        }
    }
    return pytorch_fwd(problem, src, weight, bias, prepared->epilogue, operands, call.preactivation);
}

at::Tensor fwd_cuda(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                    const Geometry& geometry, Text epilogue, at::TensorList operands) {
    return run_fwd(src, weight, bias, geometry, epilogue, operands, nullptr);
}

std::tuple<at::Tensor, at::Tensor> fwd_saved_cuda(const at::Tensor& src, const at::Tensor& weight,
                                                  const OptionalTensor& bias, const Geometry& geometry, Text epilogue,
                                                  at::TensorList operands) {
    at::Tensor preactivation = nothing(src);
    at::Tensor dst = run_fwd(src, weight, bias, geometry, epilogue, operands, &preactivation);
    return {dst, preactivation};
}

at::Tensor run_bwd_data(const Problem& problem, const at::Tensor& grad_dst, const at::Tensor& weight) {
    const auto prepared = cuda_plan(problem, "", grad_dst.device().index());
    const at::Tensor grad_src = make(src_sizes(problem), grad_dst, format(problem));
    const at::Tensor dense_grad_dst = aligned(grad_dst.contiguous(format(problem)));
    const at::Tensor dense_weight = aligned(weight.contiguous());

    Arguments arguments;
    arguments.grad_dst = dense_grad_dst.data_ptr();
    arguments.weight = dense_weight.data_ptr();
    arguments.grad_src = grad_src.data_ptr();
    execute(prepared->plan.value(), arguments, grad_dst.device());
    return grad_src;
}

std::tuple<at::Tensor, at::Tensor> run_bwd_weight(const Problem& problem, const at::Tensor& src,
                                                  const at::Tensor& grad_dst, bool with_bias) {
    const auto prepared = cuda_plan(problem, "", src.device().index());
    const at::Tensor grad_weight = make(weight_sizes(problem), src, at::MemoryFormat::Contiguous);
    const at::Tensor grad_bias = with_bias ? at::empty({problem.dst_channels}, src.options()) : nothing(src);
    const at::Tensor dense_src = aligned(src.contiguous(format(problem)));
    const at::Tensor dense_grad_dst = aligned(grad_dst.contiguous(format(problem)));

    Arguments arguments;
    arguments.src = dense_src.data_ptr();
    arguments.grad_dst = dense_grad_dst.data_ptr();
    arguments.grad_weight = grad_weight.data_ptr();
    if (with_bias) arguments.grad_bias = grad_bias.data_ptr();
    execute(prepared->plan.value(), arguments, src.device());
    return {grad_weight, grad_bias};
}

at::Tensor bwd_data_cuda(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    const c10::DeviceGuard guard(grad_dst.device());
    Problem problem = bwd_data_problem(grad_dst, weight, geometry);
    problem.math = math_mode(problem.dtype);
    return left_to_pytorch(problem).empty() ? run_bwd_data(problem, grad_dst, weight)
                                            : pytorch_bwd_data(problem, grad_dst, weight);
}

std::tuple<at::Tensor, at::Tensor> bwd_weight_cuda(const at::Tensor& src, const at::Tensor& grad_dst,
                                                   at::IntArrayRef kernel, const Geometry& geometry, bool with_bias) {
    const c10::DeviceGuard guard(src.device());
    Problem problem = bwd_weight_problem(src, grad_dst, kernel, geometry);
    problem.math = math_mode(problem.dtype);
    return left_to_pytorch(problem).empty() ? run_bwd_weight(problem, src, grad_dst, with_bias)
                                            : pytorch_bwd_weight(problem, src, grad_dst, with_bias);
}

std::tuple<at::Tensor, std::vector<at::Tensor>> epilogue_bwd_cuda(const at::Tensor& grad_dst, const at::Tensor& saved,
                                                                  Text text, at::TensorList operands) {
    const c10::DeviceGuard guard(grad_dst.device());
    const Epilogue epilogue = checked_epilogue(text, operands, epilogue_problem(grad_dst), grad_dst);
    check_saved(saved, epilogue, grad_dst);
    return chain_bwd(grad_dst, saved, epilogue, operands);
}

} // namespace

TORCH_LIBRARY_IMPL(tconv3d, CUDA, m) {
    impl_fwd<fwd_cuda>(m);
    impl_fwd_saved<fwd_saved_cuda>(m);
    m.impl("bwd_data", bwd_data_kernel<bwd_data_cuda>);
    m.impl("bwd_weight", bwd_weight_kernel<bwd_weight_cuda, at::IntArrayRef>);
    impl_epilogue_bwd<epilogue_bwd_cuda>(m);
}

} // namespace tconv3d::ops
