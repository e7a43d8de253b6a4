#include "cuda/source/output_source.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/number_text.hpp"
#include "cuda/kernels/shared/output.cuh"
#include "cuda/source/prelude.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

const char* storage_type(DType dtype) {
    switch (dtype) {
    case DType::f32:
        return "float";
    case DType::f64:
        return "double";
    case DType::bf16:
        return "Bf16";
    case DType::f16:
        return "F16";
    }
    throw Error("unknown dtype");
}

bool in_double(const Problem& problem) {
    return problem.dtype == DType::f64;
}

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

/// The value of the step at `x`. The functions are those of kernels/finish/steps.cuh.
std::string value_source(const Step& step, bool is_double) {
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
        return std::string("steps::") + name(step.kind) + "(x, " + a + ")";
    case StepKind::softplus:
        return "steps::softplus(x, " + a + ", " + b + ")";
    case StepKind::relu:
    case StepKind::silu:
    case StepKind::gelu:
    case StepKind::gelu_tanh:
    case StepKind::sigmoid:
    case StepKind::tanh:
    case StepKind::hardswish:
    case StepKind::mish:
        return std::string("steps::") + name(step.kind) + "(x)";
    case StepKind::channel_add:
    case StepKind::residual_add:
        return "x + " + operand_source(step);
    case StepKind::channel_mul:
    case StepKind::residual_mul:
        return "x * " + operand_source(step);
    }
    throw Error("unknown step");
}

std::string epilogue_source(const Epilogue& epilogue, bool is_double) {
    std::string text =
        "__device__ __forceinline__ Compute epilogue(Compute x, const void* const* operands, int channel, "
        "int64_t index) {\n";
    for (const Step& step : epilogue.steps()) text += "    x = " + value_source(step, is_double) + ";\n";
    return text + "    return x;\n}\n";
}

/// C++ has no arrays of nothing.
int64_t operand_room(const Epilogue& epilogue) {
    return std::max(epilogue.operand_count(), 1);
}

} // namespace

std::string element_types(const Problem& problem) {
    return std::string("#include \"base/storage.cuh\"\nusing Storage = ") + storage_type(problem.dtype) +
           ";\nusing Compute = " + (in_double(problem) ? "double" : "float") + ";\n";
}

std::string output_source(const Problem& problem, const Epilogue& epilogue, const ResultForm& form) {
    return Prelude()
        .add("#include \"finish/steps.cuh\"\n")
        .add(element_types(problem))
        .flag("kHasBias", form.has_bias)
        .flag("kSavesPreactivation", form.saves_preactivation)
        .constant("kOperands", epilogue.operand_count())
        .constant("kOperandRoom", operand_room(epilogue))
        .add(epilogue_source(epilogue, in_double(problem)))
        .str();
}

std::vector<const void*> output_argument(const Epilogue& epilogue, const Arguments& arguments, void* out) {
    using Tensors = OutputTensors<void, 1>; // without room for operands, these are appended
    const Tensors tensors = {out, arguments.preactivation, arguments.bias, {}};
    std::vector<const void*> pointers(sizeof tensors / sizeof(void*) - 1);
    std::memcpy(pointers.data(), &tensors, pointers.size() * sizeof(void*));
    const size_t room = pointers.size() + static_cast<size_t>(operand_room(epilogue));
    pointers.insert(pointers.end(), arguments.operands.begin(), arguments.operands.end());
    pointers.resize(room);
    return pointers;
}

} // namespace tconv3d::cuda
