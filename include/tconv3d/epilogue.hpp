#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tconv3d {

/// The pointwise steps. `channel_*` take one value per output channel, `residual_*` a tensor shaped like dst.
enum class StepKind {
    add,
    mul,
    div,
    clamp,
    relu,
    leaky_relu,
    elu,
    silu,
    gelu,
    gelu_tanh,
    sigmoid,
    tanh,
    hardswish,
    softplus,
    mish,
    channel_add,
    channel_mul,
    residual_add,
    residual_mul,
};

/// One step. `a` and `b` are its constants in the order of its text form; `operand` counts the tensors of the chain.
struct Step {
    StepKind kind;
    double a = 0;
    double b = 0;
    int operand = -1;

    bool operator==(const Step& other) const {
        return kind == other.kind && a == other.a && b == other.b && operand == other.operand;
    }
};

/// What backward must keep from forward to know the derivative of the chain.
enum class Saved { nothing, output, preactivation };

/// The ordered chain of pointwise steps applied to `accumulator + bias` before it is rounded and stored.
///
/// In one line: `clamp(min=-1) div(2)`, steps in order, separated by blanks. Constants may be positional or named:
/// `add(v) mul(v) div(v) clamp(min,max) relu leaky_relu(slope) elu(alpha) silu gelu gelu_tanh sigmoid tanh hardswish
/// softplus(beta,threshold) mish channel_add channel_mul residual_add residual_mul`.
class Epilogue {
public:
    Epilogue() = default;
    explicit Epilogue(std::vector<Step> steps);

    static Epilogue parse(std::string_view text);
    std::string str() const;

    const std::vector<Step>& steps() const { return steps_; }
    bool empty() const { return steps_.empty(); }
    int operand_count() const;
    Saved saved() const;

    bool operator==(const Epilogue& other) const { return steps_ == other.steps_; }

private:
    std::vector<Step> steps_;
};

const char* name(StepKind kind);
bool takes_channel(StepKind kind);
bool takes_residual(StepKind kind);

/// Value and derivative of a step at x, in double: the definition that every backend is tested against.
/// `operand` is the tensor's value there, for the steps that take one.
double step_value(const Step& step, double x, double operand = 0);
double step_derivative(const Step& step, double x, double operand = 0);

} // namespace tconv3d
