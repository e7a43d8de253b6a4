#include "chain.hpp"
#include "text.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace tconv3d::ops {

at::Tensor per_channel(const at::Tensor& values) {
    return values.view({-1, 1, 1, 1});
}

at::Tensor apply_step(const Step& step, const at::Tensor& x, const std::vector<at::Tensor>& operands) {
    const at::Tensor operand = step.operand < 0 ? at::Tensor() : operands[static_cast<size_t>(step.operand)];
    switch (step.kind) {
    case StepKind::add:
        return x + step.a;
    case StepKind::mul:
        return x * step.a;
    case StepKind::div:
        return x / step.a;
    case StepKind::clamp:
        return at::clamp(x, at::Scalar(step.a), at::Scalar(step.b));
    case StepKind::relu:
        return at::relu(x);
    case StepKind::leaky_relu:
        return at::leaky_relu(x, step.a);
    case StepKind::elu:
        return at::elu(x, step.a);
    case StepKind::silu:
        return at::silu(x);
    case StepKind::gelu:
        return at::gelu(x);
    case StepKind::gelu_tanh:
        return at::gelu(x, "tanh");
    case StepKind::sigmoid:
        return at::sigmoid(x);
    case StepKind::tanh:
        return at::tanh(x);
    case StepKind::hardswish:
        return at::hardswish(x);
    case StepKind::softplus:
        return at::softplus(x, step.a, step.b);
    case StepKind::mish:
        return at::mish(x);
    case StepKind::channel_add:
        return x + per_channel(operand);
    case StepKind::channel_mul:
        return x * per_channel(operand);
    case StepKind::residual_add:
        return x + operand;
    case StepKind::residual_mul:
        return x * operand;
    }
    TORCH_CHECK(false, text("unknown epilogue step ", static_cast<int>(step.kind)));
}

namespace {

/// A tensor that the chain alone sees: its gradient stops here, even where one operand was computed from another tensor
/// of the call.
at::Tensor chain_input(const at::Tensor& tensor) {
    return tensor.requires_grad() ? tensor.view_as(tensor) : tensor.detach().requires_grad_();
}

} // namespace

std::tuple<at::Tensor, std::vector<at::Tensor>> differentiable_epilogue_bwd(const at::Tensor& grad_dst,
                                                                            const at::Tensor& preactivation,
                                                                            const Epilogue& epilogue,
                                                                            const std::vector<at::Tensor>& operands) {
    std::vector<at::Tensor> inputs = {chain_input(preactivation)};
    for (const at::Tensor& operand : operands) inputs.push_back(chain_input(operand));
    const std::vector<at::Tensor> aliases(inputs.begin() + 1, inputs.end());
    at::Tensor dst = inputs[0];
    for (const Step& step : epilogue.steps()) dst = apply_step(step, dst, aliases);

    std::vector<at::Tensor> grads = torch::autograd::grad({dst}, inputs, {grad_dst}, /*retain_graph=*/true,
                                                          /*create_graph=*/true);
    return {grads[0], std::vector<at::Tensor>(grads.begin() + 1, grads.end())};
}

} // namespace tconv3d::ops
