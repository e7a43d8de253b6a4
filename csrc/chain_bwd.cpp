#include "chain_bwd.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "chain.hpp"
#include "convert.hpp"
#include "text.hpp"

namespace tconv3d::ops {

namespace {

/// The gradient of a step's input; x is that input, or undefined where the derivative is a constant.
at::Tensor grad_input(const Step& step, const at::Tensor& grad, const at::Tensor& x,
                      const std::vector<at::Tensor>& operands) {
    switch (step.kind) {
    case StepKind::add:
    case StepKind::channel_add:
    case StepKind::residual_add:
        return grad;
    case StepKind::mul:
        return grad * step.a;
    case StepKind::div:
        return grad / step.a;
    case StepKind::clamp:
        return at::where((x >= step.a).logical_and_(x <= step.b), grad, at::Scalar(0));
    case StepKind::relu:
        return at::threshold_backward(grad, x, 0);
    case StepKind::leaky_relu:
        return at::leaky_relu_backward(grad, x, step.a, /*self_is_result=*/false);
    case StepKind::elu:
        return at::elu_backward(grad, step.a, 1, 1, /*is_result=*/false, x);
    case StepKind::silu:
        return at::silu_backward(grad, x);
    case StepKind::gelu:
        return at::gelu_backward(grad, x);
    case StepKind::gelu_tanh:
        return at::gelu_backward(grad, x, "tanh");
    case StepKind::sigmoid:
        return at::sigmoid_backward(grad, at::sigmoid(x));
    case StepKind::tanh:
        return at::tanh_backward(grad, at::tanh(x));
    case StepKind::hardswish:
        return at::hardswish_backward(grad, x);
    case StepKind::softplus:
        return at::softplus_backward(grad, x, step.a, step.b);
    case StepKind::mish:
        return at::mish_backward(grad, x);
    case StepKind::channel_mul:
        return grad * per_channel(operands[static_cast<size_t>(step.operand)]);
    case StepKind::residual_mul:
        return grad * operands[static_cast<size_t>(step.operand)];
    }
    TORCH_CHECK(false, text("unknown epilogue step ", static_cast<int>(step.kind)));
}

/// The same from the step's output, for the steps that Epilogue::saved() counts on.
at::Tensor grad_input_from_output(const Step& step, const at::Tensor& grad, const at::Tensor& y) {
    switch (step.kind) {
    case StepKind::relu:
        return at::threshold_backward(grad, y, 0);
    case StepKind::leaky_relu:
        return at::leaky_relu_backward(grad, y, step.a, /*self_is_result=*/true);
    case StepKind::elu:
        return at::elu_backward(grad, step.a, 1, 1, /*is_result=*/true, y);
    case StepKind::sigmoid:
        return at::sigmoid_backward(grad, y);
    case StepKind::tanh:
        return at::tanh_backward(grad, y);
    default:
        TORCH_CHECK(false, text("the derivative of ", name(step.kind), " does not follow from its output"));
    }
}

at::Tensor grad_operand(const Step& step, const at::Tensor& grad, const at::Tensor& x) {
    const bool multiplies = step.kind == StepKind::channel_mul || step.kind == StepKind::residual_mul;
    const at::Tensor each = multiplies ? grad * x : grad;
    return takes_channel(step.kind) ? each.sum({0, 2, 3, 4}) : each;
}

/// The input of each step, from the preactivation on.
std::vector<at::Tensor> step_inputs(const Epilogue& epilogue, const at::Tensor& preactivation,
                                    const std::vector<at::Tensor>& operands) {
    std::vector<at::Tensor> inputs = {preactivation};
    for (size_t s = 0; s + 1 < epilogue.steps().size(); ++s)
        inputs.push_back(apply_step(epilogue.steps()[s], inputs.back(), operands));
    return inputs;
}

/// Halves go through several steps in fp32, so that the result is rounded once.
at::ScalarType compute_type(const at::Tensor& grad, const Epilogue& epilogue) {
    const bool half = grad.scalar_type() == at::kHalf || grad.scalar_type() == at::kBFloat16;
    return half && epilogue.steps().size() > 1 ? at::kFloat : grad.scalar_type();
}

/// An op's results share no memory with one another or with its arguments.
at::Tensor own(const at::Tensor& result, const std::vector<at::Tensor>& others) {
    const bool shared =
        std::any_of(others.begin(), others.end(), [&](const at::Tensor& other) { return result.is_alias_of(other); });
    return shared ? result.clone() : result;
}

} // namespace

std::tuple<at::Tensor, std::vector<at::Tensor>> chain_bwd(const at::Tensor& grad_dst, const at::Tensor& saved,
                                                          const Epilogue& epilogue, at::TensorList operands) {
    const at::ScalarType type = compute_type(grad_dst, epilogue);
    std::vector<at::Tensor> values;
    for (const at::Tensor& operand : operands) values.push_back(operand.to(type));
    std::vector<at::Tensor> inputs(epilogue.steps().size());
    if (epilogue.saved() == Saved::preactivation) inputs = step_inputs(epilogue, saved.to(type), values);

    at::Tensor grad = grad_dst.to(type);
    std::vector<at::Tensor> grad_operands(operands.size());
    for (size_t s = epilogue.steps().size(); s-- > 0;) {
        const Step& step = epilogue.steps()[s];
        if (step.operand >= 0) grad_operands[static_cast<size_t>(step.operand)] = grad_operand(step, grad, inputs[s]);
        const bool from_output = epilogue.saved() == Saved::output && s + 1 == epilogue.steps().size();
        grad = from_output ? grad_input_from_output(step, grad, saved.to(type))
                           : grad_input(step, grad, inputs[s], values);
    }

    const at::MemoryFormat dst_format = common_format(grad_dst, grad_dst);
    std::vector<at::Tensor> taken = {grad_dst, saved};
    const auto finished = [&](const at::Tensor& result) {
        const at::Tensor rounded = result.to(grad_dst.scalar_type());
        taken.push_back(own(rounded.dim() == 1 ? rounded : rounded.contiguous(dst_format), taken));
        return taken.back();
    };
    const at::Tensor grad_preactivation = finished(grad);
    for (at::Tensor& each : grad_operands) each = finished(each);
    return {grad_preactivation, grad_operands};
}

} // namespace tconv3d::ops
