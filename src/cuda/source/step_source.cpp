#include "cuda/source/step_source.hpp"

#include <cmath>
#include <set>

#include "core/number_text.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

/// The constant as the kernel's arithmetic has it, in digits that keep every bit.
std::string literal(double value, DType dtype) {
    const bool is_double = dtype == DType::f64;
    const double rounded = is_double ? value : static_cast<double>(static_cast<float>(value));
    if (std::isinf(rounded)) {
        const std::string infinity =
            is_double ? "__longlong_as_double(0x7ff0000000000000)" : "__int_as_float(0x7f800000)";
        return rounded < 0 ? "-" + infinity : infinity;
    }
    return hexadecimal_literal(rounded) + (is_double ? "" : "f");
}

/// A bound that nothing passes is left out.
std::string clamp_source(const Step& step, const StepWords& words) {
    std::string value = words.x;
    if (!(std::isinf(step.a) && step.a < 0))
        value = "steps::at_least(" + value + ", " + literal(step.a, words.dtype) + ")";
    if (!(std::isinf(step.b) && step.b > 0))
        value = "steps::at_most(" + value + ", " + literal(step.b, words.dtype) + ")";
    return value;
}

/// How many constants the function of the step takes; -1 for steps without one, which are a single operation.
int function_constants(StepKind kind) {
    switch (kind) {
    case StepKind::relu:
    case StepKind::silu:
    case StepKind::gelu:
    case StepKind::gelu_tanh:
    case StepKind::sigmoid:
    case StepKind::tanh:
    case StepKind::hardswish:
    case StepKind::mish:
        return 0;
    case StepKind::leaky_relu:
    case StepKind::elu:
        return 1;
    case StepKind::softplus:
    case StepKind::clamp: // of its derivative alone: its value is the smaller of two
        return 2;
    case StepKind::add:
    case StepKind::mul:
    case StepKind::div:
    case StepKind::channel_add:
    case StepKind::channel_mul:
    case StepKind::residual_add:
    case StepKind::residual_mul:
        return -1;
    }
    throw Error("unknown step");
}

std::string call(const std::string& function, const Step& step, const StepWords& words) {
    const int constants = function_constants(step.kind);
    return function + "(" + words.x + (constants > 0 ? ", " + literal(step.a, words.dtype) : "") +
           (constants > 1 ? ", " + literal(step.b, words.dtype) : "") + ")";
}

/// A function of the namespace that is not inlined.
std::string called_function(const std::string& space, StepKind kind) {
    const int constants = function_constants(kind);
    const std::string function = name(kind);
    return "__device__ __noinline__ Compute " + function + "(Compute x" + (constants > 0 ? ", Compute a" : "") +
           (constants > 1 ? ", Compute b" : "") + ") {\n    return " + space + "::" + function + "(x" +
           (constants > 0 ? ", a" : "") + (constants > 1 ? ", b" : "") + ");\n}\n";
}

/// Milliseconds that NVRTC takes for the step at one output, about.
double compile_cost(const Step& step) {
    switch (step.kind) {
    case StepKind::add:
    case StepKind::mul:
    case StepKind::clamp:
    case StepKind::relu:
    case StepKind::leaky_relu:
        return 0.2;
    case StepKind::div:
    case StepKind::hardswish:
    case StepKind::sigmoid:
    case StepKind::silu:
    case StepKind::channel_add:
    case StepKind::channel_mul:
    case StepKind::residual_add:
    case StepKind::residual_mul:
        return 1.5;
    case StepKind::elu:
    case StepKind::tanh:
    case StepKind::gelu:
    case StepKind::gelu_tanh:
        return 4;
    case StepKind::softplus:
    case StepKind::mish:
        return 7;
    }
    throw Error("unknown step");
}

/// The steps whose derivative masks the gradient (kMasksGradient of core/steps.hpp).
bool masks_gradient(StepKind kind) {
    return kind == StepKind::clamp || kind == StepKind::relu || kind == StepKind::hardswish;
}

std::string chained(StepKind kind, const std::string& derivative) {
    return masks_gradient(kind) ? "derivatives::masked(grad, " + derivative + ")" : "grad * " + derivative;
}

} // namespace

std::string value_source(const Step& step, const StepWords& words) {
    const std::string& x = words.x;
    switch (step.kind) {
    case StepKind::add:
        return x + " + " + literal(step.a, words.dtype);
    case StepKind::mul:
        return x + " * " + literal(step.a, words.dtype);
    case StepKind::div:
        return x + " / " + literal(step.a, words.dtype);
    case StepKind::clamp:
        return clamp_source(step, words);
    case StepKind::channel_add:
    case StepKind::residual_add:
        return x + " + " + words.operand;
    case StepKind::channel_mul:
    case StepKind::residual_mul:
        return x + " * " + words.operand;
    default:
        return call(std::string(words.calls ? "called::" : "steps::") + name(step.kind), step, words);
    }
}

std::string gradient_source(const Step& step, const StepWords& words) {
    switch (step.kind) {
    case StepKind::add:
    case StepKind::channel_add:
    case StepKind::residual_add:
        return "grad";
    case StepKind::mul:
        return "grad * " + literal(step.a, words.dtype);
    case StepKind::div:
        return "grad * (Compute(1) / " + literal(step.a, words.dtype) + ")";
    case StepKind::channel_mul:
    case StepKind::residual_mul:
        return "grad * " + words.operand;
    default:
        return chained(
            step.kind,
            call(std::string(words.calls ? "called_derivatives::" : "derivatives::") + name(step.kind), step, words));
    }
}

std::string gradient_source_from_output(const Step& step, const StepWords& words) {
    // The sign of the output is that of the input.
    const bool by_sign = step.kind == StepKind::relu || step.kind == StepKind::leaky_relu;
    const std::string function = std::string("derivatives::") + name(step.kind) + (by_sign ? "" : "_from_output");
    return chained(step.kind, call(function, step, words));
}

std::string called_functions(const Epilogue& epilogue, bool with_derivatives) {
    std::set<StepKind> kinds;
    for (const Step& step : epilogue.steps())
        if (function_constants(step.kind) >= 0) kinds.insert(step.kind);
    std::string values, derivatives;
    for (const StepKind kind : kinds) {
        if (kind != StepKind::clamp) values += called_function("steps", kind);
        derivatives += called_function("derivatives", kind);
    }
    return "namespace called {\n" + values + "}\n" +
           (with_derivatives ? "namespace called_derivatives {\n" + derivatives + "}\n" : "");
}

double compile_cost(const Epilogue& epilogue) {
    double cost = 0;
    for (const Step& step : epilogue.steps()) cost += compile_cost(step);
    return cost;
}

} // namespace tconv3d::cuda
