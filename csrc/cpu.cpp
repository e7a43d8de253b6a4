#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "convert.hpp"
#include "core/lasting.hpp"
#include "executor.hpp"
#include "kept.hpp"
#include "plan_key.hpp"
#include "tconv3d/plan.hpp"
#include "tensors.hpp"

/// The CPU kernels: dense tensors in the problem's layout, a workspace and PyTorch's threads for the core.
namespace tconv3d::ops {

namespace {

/// The plan of the problem, made at the first call: making one takes as long as a small problem.
std::shared_ptr<const Plan> prepared(const Problem& problem, Text epilogue = "") {
    static Lasting<Kept<Plan>> all(256U); // a plan of 32768 taps holds two megabytes
    const std::string key = plan_key(problem, epilogue, {"TCONV3D_IMPL", "TCONV3D_ISA"});
    if (auto known = all->find(key)) return known;
    auto made = std::make_shared<const Plan>(problem, parsed_epilogue(epilogue));
    all->insert(key, made);
    return made;
}

void execute(const Plan& plan, const Arguments& arguments) {
    TorchExecutor executor;
    const auto bytes = static_cast<int64_t>(plan.workspace_bytes(executor.workers()));
    const at::Tensor workspace = at::empty({bytes}, at::TensorOptions(at::kByte));
    plan.execute(arguments, executor, workspace.data_ptr());
}

/// preactivation: where to leave it; null when nobody asks.
at::Tensor run_fwd(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                   const Geometry& geometry, Text epilogue, at::TensorList operands, at::Tensor* preactivation) {
    const Problem problem = fwd_problem(src, weight, bias, geometry);
    const std::shared_ptr<const Plan> plan = prepared(problem, epilogue);
    check_operands(plan->epilogue(), operands, problem, src);
    const at::Tensor dense_src = src.contiguous(format(problem));
    const at::Tensor dense_weight = weight.contiguous();
    const at::Tensor dense_bias = bias.has_value() && bias->defined() ? bias->contiguous() : at::Tensor();
    const std::vector<at::Tensor> dense_operands = dense(operands, problem);
    const at::Tensor dst = make(dst_sizes(problem), src, format(problem));

    Arguments arguments;
    arguments.src = dense_src.data_ptr();
    arguments.weight = dense_weight.data_ptr();
    if (dense_bias.defined()) arguments.bias = dense_bias.data_ptr();
    arguments.operands = pointers(dense_operands);
    arguments.dst = dst.data_ptr();
    if (preactivation != nullptr && plan->epilogue().saved() == Saved::preactivation) {
        *preactivation = make(dst_sizes(problem), src, format(problem));
        arguments.preactivation = preactivation->data_ptr();
    }
    execute(*plan, arguments);
    return dst;
}

at::Tensor fwd_cpu(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                   const Geometry& geometry, Text epilogue, at::TensorList operands) {
    return run_fwd(src, weight, bias, geometry, epilogue, operands, nullptr);
}

std::tuple<at::Tensor, at::Tensor> fwd_saved_cpu(const at::Tensor& src, const at::Tensor& weight,
                                                 const OptionalTensor& bias, const Geometry& geometry, Text epilogue,
                                                 at::TensorList operands) {
    at::Tensor preactivation;
    at::Tensor dst = run_fwd(src, weight, bias, geometry, epilogue, operands, &preactivation);
    return {dst, preactivation.defined() ? preactivation : nothing(src)};
}

at::Tensor bwd_data_cpu(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    const Problem problem = bwd_data_problem(grad_dst, weight, geometry);
    const at::Tensor dense_grad_dst = grad_dst.contiguous(format(problem));
    const at::Tensor dense_weight = weight.contiguous();
    const at::Tensor grad_src = make(src_sizes(problem), grad_dst, format(problem));

    Arguments arguments;
    arguments.grad_dst = dense_grad_dst.data_ptr();
    arguments.weight = dense_weight.data_ptr();
    arguments.grad_src = grad_src.data_ptr();
    execute(*prepared(problem), arguments);
    return grad_src;
}

std::tuple<at::Tensor, at::Tensor> bwd_weight_cpu(const at::Tensor& src, const at::Tensor& grad_dst,
                                                  at::IntArrayRef kernel, const Geometry& geometry, bool with_bias) {
    const Problem problem = bwd_weight_problem(src, grad_dst, kernel, geometry);
    const at::Tensor dense_src = src.contiguous(format(problem));
    const at::Tensor dense_grad_dst = grad_dst.contiguous(format(problem));
    const at::Tensor grad_weight = make(weight_sizes(problem), src, at::MemoryFormat::Contiguous);
    const at::Tensor grad_bias = with_bias ? at::empty({problem.dst_channels}, src.options()) : nothing(src);

    Arguments arguments;
    arguments.src = dense_src.data_ptr();
    arguments.grad_dst = dense_grad_dst.data_ptr();
    arguments.grad_weight = grad_weight.data_ptr();
    if (with_bias) arguments.grad_bias = grad_bias.data_ptr();
    execute(*prepared(problem), arguments);
    return {grad_weight, grad_bias};
}

EpilogueBwdResults epilogue_bwd_cpu(const at::Tensor& grad_dst, const at::Tensor& saved, Text epilogue_text,
                                    at::TensorList operands, bool with_bias) {
    const Problem problem = epilogue_problem(grad_dst);
    const Epilogue epilogue = checked_epilogue(epilogue_text, operands, problem, grad_dst);
    check_saved(saved, epilogue, grad_dst);
    const EpilogueBwdTensors tensors(problem, epilogue, grad_dst, saved, operands, /*alignment=*/1);
    TorchExecutor executor;
    tconv3d::epilogue_bwd(problem, epilogue, tensors.pointers(), executor);
    const at::Tensor& grad = tensors.grad_preactivation();
    return {grad, tensors.grad_operands(), with_bias ? sum_of_channels(grad) : nothing(grad)};
}

} // namespace

TORCH_LIBRARY_IMPL(tconv3d, CPU, m) {
    impl_fwd<fwd_cpu>(m);
    impl_fwd_saved<fwd_saved_cpu>(m);
    m.impl("bwd_data", bwd_data_kernel<bwd_data_cpu>);
    m.impl("bwd_weight", bwd_weight_kernel<bwd_weight_cpu, at::IntArrayRef>);
    impl_epilogue_bwd<epilogue_bwd_cpu>(m);
}

} // namespace tconv3d::ops
