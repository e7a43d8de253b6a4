#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "chain_bwd.hpp"
#include "convert.hpp"
#include "cuda_epilogue_bwd.hpp"
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

/// The kernels read so many bytes at a time.
at::Tensor aligned(const at::Tensor& dense) {
    return ops::aligned(dense, kCudaAlignment);
}

void execute(const cuda::Plan& plan, const Arguments& arguments, c10::Device device) {
    const auto bytes = static_cast<int64_t>(plan.workspace_bytes());
    if (bytes == 0) return plan.execute(arguments, current_stream(device.index()), nullptr);
    // Freed when this returns, before the work is done: the allocator gives it to later work of the same stream alone.
    const at::Tensor workspace = at::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
    plan.execute(arguments, current_stream(device.index()), workspace.data_ptr());
}

/// A problem on a device with the plan that it has at present.
class Planned {
public:
    Planned(const Problem& problem, Text epilogue, c10::Device device)
        : problem_(problem), text_(epilogue), device_(device.index()),
          prepared_(cuda_plan(problem, epilogue, device_)) {}

    const Epilogue& epilogue() const { return prepared_->epilogue; }

    /// by_plan(plan), with the next plan where this machine cannot run the kernel; by_pytorch() when none is left.
    template <typename ByPlan, typename ByPyTorch>
    auto carry_out(const ByPlan& by_plan, const ByPyTorch& by_pytorch) {
        while (prepared_->plan) {
            try {
                return by_plan(*prepared_->plan);
            } catch (const KernelFailure& failure) {
                prepared_ = next_cuda_plan(problem_, text_, device_, *prepared_, failure);
            }
        }
        return by_pytorch();
    }

private:
    const Problem& problem_;
    Text text_;
    int device_;
    std::shared_ptr<const CudaPlan> prepared_;
};

/// The weight as the plan takes it: with its channels last only where it lies so and the plan reads that.
struct DenseWeight {
    at::Tensor tensor;
    bool channels_last;

    DenseWeight(const cuda::Plan& plan, const at::Tensor& weight)
        : channels_last(plan.takes_channels_last_weight() && !weight.is_contiguous() &&
                        weight.is_contiguous(at::MemoryFormat::ChannelsLast3d)) {
        tensor = aligned(channels_last ? weight : weight.contiguous());
    }

    void give(Arguments& arguments) const {
        arguments.weight = tensor.data_ptr();
        arguments.weight_channels_last = channels_last;
    }
};

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
    if (preactivation != nullptr) *preactivation = make(dst_sizes(problem), src, format(problem));
    if (problem.batch == 0) return dst;

    const at::Tensor dense_src = aligned(src.contiguous(format(problem)));
    const DenseWeight dense_weight(plan, weight);
    const at::Tensor dense_bias = bias.has_value() && bias->defined() ? aligned(bias->contiguous()) : at::Tensor();
    std::vector<at::Tensor> dense_operands = dense(operands, problem);
    for (at::Tensor& operand : dense_operands) operand = aligned(operand);

    Arguments arguments;
    arguments.src = dense_src.data_ptr();
    dense_weight.give(arguments);
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
    Planned planned(problem, epilogue, src.device());
    check_operands(planned.epilogue(), operands, problem, src);
    const bool saves = planned.epilogue().saved() == Saved::preactivation;
    const FwdCall call{problem, src, weight, bias, operands, saves ? preactivation : nullptr};
    return planned.carry_out(
        [&](const cuda::Plan& plan) { return planned_fwd(plan, call); },
        [&] { return pytorch_fwd(problem, src, weight, bias, planned.epilogue(), operands, call.preactivation); });
}

at::Tensor fwd_cuda(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                    const Geometry& geometry, Text epilogue, at::TensorList operands) {
    return run_fwd(src, weight, bias, geometry, epilogue, operands, nullptr);
}

std::tuple<at::Tensor, at::Tensor> fwd_saved_cuda(const at::Tensor& src, const at::Tensor& weight,
                                                  const OptionalTensor& bias, const Geometry& geometry, Text epilogue,
                                                  at::TensorList operands) {
    at::Tensor preactivation;
    at::Tensor dst = run_fwd(src, weight, bias, geometry, epilogue, operands, &preactivation);
    return {dst, preactivation.defined() ? preactivation : nothing(src)};
}

at::Tensor planned_bwd_data(const cuda::Plan& plan, const at::Tensor& grad_dst, const at::Tensor& weight) {
    const Problem& problem = plan.problem();
    const at::Tensor grad_src = make(src_sizes(problem), grad_dst, format(problem));
    const at::Tensor dense_grad_dst = aligned(grad_dst.contiguous(format(problem)));
    const DenseWeight dense_weight(plan, weight);

    Arguments arguments;
    arguments.grad_dst = dense_grad_dst.data_ptr();
    dense_weight.give(arguments);
    arguments.grad_src = grad_src.data_ptr();
    execute(plan, arguments, grad_dst.device());
    return grad_src;
}

using WeightGradients = std::tuple<at::Tensor, at::Tensor>;

WeightGradients planned_bwd_weight(const cuda::Plan& plan, const at::Tensor& src, const at::Tensor& grad_dst,
                                   bool with_bias) {
    const Problem& problem = plan.problem();
    const at::Tensor grad_weight = make(weight_sizes(problem), src, at::MemoryFormat::Contiguous);
    const at::Tensor grad_bias = with_bias ? at::empty({problem.dst_channels}, src.options()) : nothing(src);
    const at::Tensor dense_src = aligned(src.contiguous(format(problem)));
    const at::Tensor dense_grad_dst = aligned(grad_dst.contiguous(format(problem)));

    Arguments arguments;
    arguments.src = dense_src.data_ptr();
    arguments.grad_dst = dense_grad_dst.data_ptr();
    arguments.grad_weight = grad_weight.data_ptr();
    if (with_bias) arguments.grad_bias = grad_bias.data_ptr();
    execute(plan, arguments, src.device());
    return {grad_weight, grad_bias};
}

at::Tensor bwd_data_cuda(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    const c10::DeviceGuard guard(grad_dst.device());
    Problem problem = bwd_data_problem(grad_dst, weight, geometry);
    problem.math = math_mode(problem.dtype);
    const auto by_pytorch = [&] { return pytorch_bwd_data(problem, grad_dst, weight); };
    if (!left_to_pytorch(problem).empty()) return by_pytorch();
    return Planned(problem, "", grad_dst.device())
        .carry_out([&](const cuda::Plan& plan) { return planned_bwd_data(plan, grad_dst, weight); }, by_pytorch);
}

WeightGradients bwd_weight_cuda(const at::Tensor& src, const at::Tensor& grad_dst, at::IntArrayRef kernel,
                                const Geometry& geometry, bool with_bias) {
    const c10::DeviceGuard guard(src.device());
    Problem problem = bwd_weight_problem(src, grad_dst, kernel, geometry);
    problem.math = math_mode(problem.dtype);
    const auto by_pytorch = [&] { return pytorch_bwd_weight(problem, src, grad_dst, with_bias); };
    if (!left_to_pytorch(problem).empty()) return by_pytorch();
    return Planned(problem, "", src.device())
        .carry_out([&](const cuda::Plan& plan) { return planned_bwd_weight(plan, src, grad_dst, with_bias); },
                   by_pytorch);
}

EpilogueBwdResults epilogue_bwd_cuda(const at::Tensor& grad_dst, const at::Tensor& saved, Text text,
                                     at::TensorList operands, bool with_bias) {
    const c10::DeviceGuard guard(grad_dst.device());
    const Epilogue epilogue = checked_epilogue(text, operands, epilogue_problem(grad_dst), grad_dst);
    check_saved(saved, epilogue, grad_dst);
    if (takes_gradients()) {
        const auto results = planned_epilogue_bwd(grad_dst, saved, epilogue, text, operands, with_bias);
        if (results) return *results;
    }
    auto [grad, grad_operands] = chain_bwd(grad_dst, saved, epilogue, operands);
    return {grad, grad_operands, with_bias ? sum_of_channels(grad) : nothing(grad)};
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
