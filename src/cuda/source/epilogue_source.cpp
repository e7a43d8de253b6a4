#include "cuda/source/epilogue_source.hpp"

#include <cmath>
#include <set>

#include "core/number_text.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

/// The constant as the kernel's arithmetic has it, in digits that keep every bit.
std::string literal(double value, bool is_double) {
    const double rounded = is_double ? value : static_cast<double>(static_cast<float>(value));
    if (std::isinf(rounded)) {
        const std::string infinity =
            is_double ? "__longlong_as_double(0x7ff0000000000000)" : "__int_as_float(0x7f800000)";
        return rounded < 0 ? "-" + infinity : infinity;
    }
    return hexadecimal_literal(rounded) + (is_double ? "" : "f");
}

/// A bound that nothing passes is left out.
std::string clamp_source(const Step& step, bool is_double) {
    std::string value = "x";
    if (!(std::isinf(step.a) && step.a < 0))
        value = "steps::at_least(" + value + ", " + literal(step.a, is_double) + ")";
    if (!(std::isinf(step.b) && step.b > 0))
        value = "steps::at_most(" + value + ", " + literal(step.b, is_double) + ")";
    return value;
}

std::string operand_source(const Step& step) {
    const std::string place = takes_channel(step.kind) ? "channel" : "index";
    return "load(static_cast<const Storage*>(operands[" + std::to_string(step.operand) + "]) + " + place + ")";
}

/// The value of the step at `x`, by functions of the namespace.
std::string value_source(const Step& step, bool is_double, const std::string& space) {
    const std::string a = literal(step.a, is_double);
    const std::string b = literal(step.b, is_double);
    switch (step.kind) {
    case StepKind::add:
        return "x + " + a;
    case StepKind::mul:
        return "x * " + a;
    case StepKind::div:
        return "x / " + a;
    case StepKind::clamp:
        return clamp_source(step, is_double);
    case StepKind::leaky_relu:
    case StepKind::elu:
        return space + name(step.kind) + "(x, " + a + ")";
    case StepKind::softplus:
        return space + "softplus(x, " + a + ", " + b + ")";
    case StepKind::relu:
    case StepKind::silu:
    case StepKind::gelu:
    case StepKind::gelu_tanh:
    case StepKind::sigmoid:
    case StepKind::tanh:
    case StepKind::hardswish:
    case StepKind::mish:
        return space + name(step.kind) + "(x)";
    case StepKind::channel_add:
    case StepKind::residual_add:
        return "x + " + operand_source(step);
    case StepKind::channel_mul:
    case StepKind::residual_mul:
        return "x * " + operand_source(step);
    }
    throw Error("unknown step");
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

double compile_cost(const Epilogue& epilogue) {
    double cost = 0;
    for (const Step& step : epilogue.steps()) cost += compile_cost(step);
    return cost;
}

/// A function of steps.cuh that is not inlined, with as many constants as the step has.
std::string called_step(StepKind kind) {
    const bool one = kind == StepKind::leaky_relu || kind == StepKind::elu, two = kind == StepKind::softplus;
    const std::string function = name(kind);
    return "__device__ __noinline__ Compute " + function + "(Compute x" + (one || two ? ", Compute a" : "") +
           (two ? ", Compute b" : "") + ") {\n    return steps::" + function + "(x" + (one || two ? ", a" : "") +
           (two ? ", b" : "") + ");\n}\n";
}

bool is_function(const Step& step, bool is_double) {
    return value_source(step, is_double, "called::").rfind("called::", 0) == 0;
}

} // namespace

bool calls_epilogue(const Epilogue& epilogue, int64_t thread_outputs) {
    constexpr double kMostMilliseconds = 1000; // beside what the rest of a kernel takes, up to 2 s
    return compile_cost(epilogue) * static_cast<double>(thread_outputs) > kMostMilliseconds;
}

std::string epilogue_source(const Epilogue& epilogue, DType dtype) {
    // The assembler's time grows faster than one function's length.
    constexpr double kLongest = 250;
    const bool is_double = dtype == DType::f64, calls_steps = compile_cost(epilogue) > kLongest;
    std::string text, space = "steps::";
    if (calls_steps) {
        std::set<StepKind> kinds;
        for (const Step& step : epilogue.steps())
            if (is_function(step, is_double)) kinds.insert(step.kind);
        text = "namespace called {\n";
        for (const StepKind kind : kinds) text += called_step(kind);
        text += "}\n";
        space = "called::";
    }
    text += "__device__ __forceinline__ Compute epilogue(Compute x, const void* const* operands, int channel, "
            "int64_t index) {\n";
    for (const Step& step : epilogue.steps()) text += "    x = " + value_source(step, is_double, space) + ";\n";
    return text + "    return x;\n}\n";
}

} // namespace tconv3d::cuda
