#include "tconv3d/epilogue.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "step_table.hpp"
#include "steps.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require(bool good, const Step& step, const char* what) {
    if (!good) throw Error("epilogue step '" + str(step) + "' " + what);
}

void validate(const Step& step) {
    require(!std::isnan(step.a) && !std::isnan(step.b), step, "has a NaN constant");
    if (step.kind == StepKind::div) require(step.a != 0, step, "divides by zero");
    if (step.kind == StepKind::softplus) require(step.a != 0, step, "divides by its beta of zero");
    if (step.kind == StepKind::clamp)
        require(step.a != -kInfinity || step.b != kInfinity, step, "needs a min or a max");
}

/// x -> a·x + b with constants: the derivative needs no data.
bool is_constant_affine(StepKind kind) {
    return kind == StepKind::add || kind == StepKind::mul || kind == StepKind::div;
}

/// Neither its derivative nor its tensor's gradient depends on x.
bool is_gradient_free_of_data(const Step& step) {
    return is_constant_affine(step.kind) || step.kind == StepKind::channel_add || step.kind == StepKind::residual_add;
}

} // namespace

Epilogue::Epilogue(std::vector<Step> steps) : steps_(std::move(steps)) {
    int operands = 0;
    for (Step& step : steps_) {
        const StepSpec& spec = step_spec(step.kind);
        if (spec.constants < 1) step.a = 0;
        if (spec.constants < 2) step.b = 0;
        validate(step);
        step.operand = takes_channel(step.kind) || takes_residual(step.kind) ? operands++ : -1;
    }
}

int Epilogue::operand_count() const {
    return static_cast<int>(std::count_if(steps_.begin(), steps_.end(), [](const Step& s) { return s.operand >= 0; }));
}

Saved Epilogue::saved() const {
    if (std::all_of(steps_.begin(), steps_.end(), is_gradient_free_of_data)) return Saved::nothing;
    const bool affine_before_last =
        std::all_of(steps_.begin(), steps_.end() - 1, [](const Step& step) { return is_constant_affine(step.kind); });
    const bool last_from_output = steps::with_step_of_output<double>(steps_.back(), [](auto) {});
    return affine_before_last && last_from_output ? Saved::output : Saved::preactivation;
}

const char* name(StepKind kind) {
    return step_spec(kind).name;
}

bool takes_channel(StepKind kind) {
    return kind == StepKind::channel_add || kind == StepKind::channel_mul;
}

bool takes_residual(StepKind kind) {
    return kind == StepKind::residual_add || kind == StepKind::residual_mul;
}

double step_value(const Step& step, double x, double operand) {
    double value = 0;
    steps::with_step<double>(step, [&](auto f) { value = f.value(x, operand); });
    return value;
}

double step_derivative(const Step& step, double x, double operand) {
    double derivative = 0;
    steps::with_step<double>(step, [&](auto f) { derivative = f.derivative(x, operand); });
    return derivative;
}

} // namespace tconv3d
