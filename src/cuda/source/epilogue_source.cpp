#include "cuda/source/epilogue_source.hpp"

#include "cuda/source/step_source.hpp"

namespace tconv3d::cuda {
namespace {

std::string operand_source(const Step& step) {
    const std::string place = takes_channel(step.kind) ? "channel" : "index";
    return "load(static_cast<const Storage*>(operands[" + std::to_string(step.operand) + "]) + " + place + ")";
}

/// Whether the functions of so much code are called: the assembler's time grows faster than one function's length.
bool calls_steps(double milliseconds) {
    return milliseconds > 250;
}

/// The value of a derivative is about two of the step, which itself is computed again.
constexpr int64_t kBwdCost = 3;

/// Whether the gradient of the step's input, or of its tensor, depends on that input.
bool reads_input(const Step& step) {
    switch (step.kind) {
    case StepKind::add:
    case StepKind::mul:
    case StepKind::div:
    case StepKind::channel_add:
    case StepKind::residual_add:
        return false;
    default:
        return true;
    }
}

/// What the input of step s is called.
std::string input_name(size_t s) {
    return s == 0 ? "saved" : "x" + std::to_string(s);
}

} // namespace

bool calls_epilogue(const Epilogue& epilogue, int64_t thread_outputs) {
    constexpr double kMostMilliseconds = 1000; // beside what the rest of a kernel takes, up to 2 s
    return compile_cost(epilogue) * static_cast<double>(thread_outputs) > kMostMilliseconds;
}

std::string epilogue_source(const Epilogue& epilogue, DType dtype) {
    const bool calls = calls_steps(compile_cost(epilogue));
    std::string text = calls ? called_functions(epilogue, /*with_derivatives=*/false) : "";
    text += "__device__ __forceinline__ Compute epilogue(Compute x, const void* const* operands, int channel, "
            "int64_t index) {\n";
    for (const Step& step : epilogue.steps())
        text += "    x = " + value_source(step, {"x", operand_source(step), dtype, calls}) + ";\n";
    return text + "    return x;\n}\n";
}

bool calls_epilogue_bwd(const Epilogue& epilogue, int64_t thread_outputs) {
    return calls_epilogue(epilogue, kBwdCost * thread_outputs);
}

std::string epilogue_bwd_source(const Epilogue& epilogue, DType dtype) {
    const std::vector<Step>& steps = epilogue.steps();
    const Saved saved = epilogue.saved();
    const bool calls = calls_steps(static_cast<double>(kBwdCost) * compile_cost(epilogue));
    const auto words = [&](size_t s) {
        return StepWords{input_name(s), "values[" + std::to_string(steps[s].operand) + "]", dtype, calls};
    };
    std::string text = calls ? called_functions(epilogue, /*with_derivatives=*/true) : "";
    text += "__device__ __forceinline__ Compute epilogue_bwd(Compute grad, Compute saved, const Compute* values, "
            "Compute* grad_values) {\n";
    size_t inputs = 0; // that are computed again: those in front of the last step that reads its own
    for (size_t s = 0; s < steps.size() && saved == Saved::preactivation; ++s)
        if (reads_input(steps[s])) inputs = s;
    for (size_t s = 0; s < inputs; ++s)
        text += "    const Compute " + input_name(s + 1) + " = " + value_source(steps[s], words(s)) + ";\n";
    for (size_t s = steps.size(); s-- > 0;) {
        const Step& step = steps[s];
        if (step.operand >= 0)
            text += "    grad_values[" + std::to_string(step.operand) + "] = grad" +
                    (reads_input(step) ? " * " + input_name(s) : "") + ";\n";
        const bool from_output = saved == Saved::output && s + 1 == steps.size();
        const std::string gradient = from_output ? gradient_source_from_output(step, {"saved", "", dtype, calls})
                                                 : gradient_source(step, words(s));
        if (gradient != "grad") text += "    grad = " + gradient + ";\n";
    }
    return text + "    return grad;\n}\n";
}

} // namespace tconv3d::cuda
