#include "cuda_epilogue_bwd.hpp"

#include <ATen/ops/empty.h>

#include "core/lasting.hpp"
#include "cuda/epilogue_bwd/epilogue_bwd.hpp"
#include "cuda_plans.hpp"
#include "cuda_stream.hpp"
#include "kept.hpp"

namespace tconv3d::ops {

namespace {

std::shared_ptr<const cuda::EpilogueBwd> prepared(const Problem& problem, const Epilogue& epilogue, Text text,
                                                  int device, bool with_bias) {
    static Lasting<Kept<cuda::EpilogueBwd>> all(4096U);
    const std::string key = cuda_plan_key(problem, text, device) + (with_bias ? '1' : '0');
    if (auto known = all->find(key)) return known;
    auto made = std::make_shared<const cuda::EpilogueBwd>(problem, epilogue, cuda::device(device), with_bias);
    all->insert(key, made);
    return made;
}

} // namespace

std::optional<EpilogueBwdResults> planned_epilogue_bwd(const at::Tensor& grad_dst, const at::Tensor& saved,
                                                       const Epilogue& epilogue, Text text, at::TensorList operands,
                                                       bool with_bias) {
    const Problem problem = epilogue_problem(grad_dst);
    const auto device = grad_dst.device();
    const EpilogueBwdTensors tensors(problem, epilogue, grad_dst, saved, operands, kCudaAlignment);
    try {
        const auto plan = prepared(problem, epilogue, text, device.index(), with_bias);
        const at::Tensor grad_bias =
            with_bias ? at::empty({problem.dst_channels}, grad_dst.options()) : nothing(grad_dst);
        // Freed when this returns, before the work is done: the allocator gives it to later work of the same stream
        // alone.
        const at::Tensor workspace =
            at::empty({static_cast<int64_t>(plan->workspace_bytes())}, at::TensorOptions(device).dtype(at::kByte));
        plan->execute(tensors.pointers(), with_bias ? grad_bias.data_ptr() : nullptr, current_stream(device.index()),
                      workspace.data_ptr());
        return EpilogueBwdResults{tensors.grad_preactivation(), tensors.grad_operands(), grad_bias};
    } catch (const KernelFailure& failure) {
        warn_once("epilogue_bwd", "tconv3d's backward of the epilogue '" + epilogue.str() +
                                      "' has failed, so PyTorch's operators compute: " + failure.what());
        return std::nullopt;
    }
}

} // namespace tconv3d::ops
