// The epilogue as device code: its formulas and its text.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "cuda/kernels/finish/step_derivatives.cuh"
#include "cuda/source/epilogue_source.hpp"
#include "cuda/source/output_source.hpp"

namespace tconv3d::cuda {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
struct DeviceStep {
    const char* text;
    std::function<T(T)> value;
};

template <typename T>
std::vector<DeviceStep<T>> device_steps() {
    return {
        {"clamp(min=-1,max=0.5)", [](T x) { return steps::at_most(steps::at_least(x, T(-1)), T(0.5)); }},
        {"clamp(min=2,max=1)", [](T x) { return steps::at_most(steps::at_least(x, T(2)), T(1)); }},
        {"relu", steps::relu<T>},
        {"leaky_relu(0.25)", [](T x) { return steps::leaky_relu(x, T(0.25)); }},
        {"elu(1.5)", [](T x) { return steps::elu(x, T(1.5)); }},
        {"silu", steps::silu<T>},
        {"gelu", steps::gelu<T>},
        {"gelu_tanh", steps::gelu_tanh<T>},
        {"sigmoid", steps::sigmoid<T>},
        {"tanh", [](T x) { return steps::tanh(x); }},
        {"hardswish", steps::hardswish<T>},
        {"softplus(2,20)", [](T x) { return steps::softplus(x, T(2), T(20)); }},
        {"mish", steps::mish<T>},
    };
}

template <typename T>
std::vector<DeviceStep<T>> device_derivatives() {
    return {
        {"clamp(min=-1,max=0.5)", [](T x) { return derivatives::clamp(x, T(-1), T(0.5)); }},
        {"clamp(min=2,max=1)", [](T x) { return derivatives::clamp(x, T(2), T(1)); }},
        {"clamp(min=-1)", [](T x) { return derivatives::clamp(x, T(-1), T(kInf)); }},
        {"relu", derivatives::relu<T>},
        {"leaky_relu(0.25)", [](T x) { return derivatives::leaky_relu(x, T(0.25)); }},
        {"elu(1.5)", [](T x) { return derivatives::elu(x, T(1.5)); }},
        {"silu", derivatives::silu<T>},
        {"gelu", derivatives::gelu<T>},
        {"gelu_tanh", derivatives::gelu_tanh<T>},
        {"sigmoid", derivatives::sigmoid<T>},
        {"tanh", derivatives::tanh<T>},
        {"hardswish", derivatives::hardswish<T>},
        {"softplus(2,20)", [](T x) { return derivatives::softplus(x, T(2), T(20)); }},
        {"mish", derivatives::mish<T>},
        // From the output.
        {"relu", [](T x) { return derivatives::relu(steps::relu(x)); }},
        {"leaky_relu(0.25)", [](T x) { return derivatives::leaky_relu(steps::leaky_relu(x, T(0.25)), T(0.25)); }},
        {"elu(1.5)", [](T x) { return derivatives::elu_from_output(steps::elu(x, T(1.5)), T(1.5)); }},
        {"sigmoid", [](T x) { return derivatives::sigmoid_from_output(steps::sigmoid(x)); }},
        {"tanh", [](T x) { return derivatives::tanh_from_output(steps::tanh(x)); }},
    };
}

double value_of(const Step& step, double x) {
    return step_value(step, x);
}

double derivative_of(const Step& step, double x) {
    return step_derivative(step, x);
}

/// Compares with what the core defines, where that is in range of the type.
template <typename T>
void expect_those_of_the_core(const std::vector<DeviceStep<T>>& steps, double (*core)(const Step&, double),
                              double tolerance) {
    std::vector<double> places = {kInf, -kInf, kNan, 0.0, -0.0, -3, 3, 10, 10.5, -50, 50, -100};
    for (double x = -5; x <= 5; x += 0.125) places.push_back(x);
    for (const DeviceStep<T>& step : steps)
        for (const double x : places) {
            const double expected = core(Epilogue::parse(step.text).steps().at(0), x);
            const double actual = static_cast<double>(step.value(static_cast<T>(x)));
            if (std::isfinite(expected))
                EXPECT_NEAR(actual, expected, tolerance * (1 + std::abs(expected))) << step.text << " at " << x;
            else if (std::isnan(expected))
                EXPECT_TRUE(std::isnan(actual)) << step.text << " at " << x << " is " << actual;
            else
                EXPECT_EQ(actual, expected) << step.text << " at " << x;
        }
}

TEST(DeviceSteps, HaveTheValuesOfTheCore) {
    expect_those_of_the_core(device_steps<float>(), value_of, 1e-6);
    expect_those_of_the_core(device_steps<double>(), value_of, 1e-15);
}

TEST(DeviceSteps, HaveTheDerivativesOfTheCore) {
    expect_those_of_the_core(device_derivatives<float>(), derivative_of, 2e-6);
    expect_those_of_the_core(device_derivatives<double>(), derivative_of, 1e-15);
    EXPECT_EQ(derivatives::masked(kInf, 0.0), 0);
    EXPECT_EQ(derivatives::masked(kInf, 2.0), kInf);
}

std::string source_of(const char* epilogue, DType dtype = DType::f32) {
    Problem problem;
    problem.dtype = dtype;
    return output_source(problem, Epilogue::parse(epilogue), {}, 1);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(EpilogueSource, PrintsConstantsToTheLastBit) {
    EXPECT_TRUE(has(source_of("add(0.1)"), "x = x + 0x1.99999ap-4f;")) << source_of("add(0.1)");
    EXPECT_TRUE(has(source_of("add(0.1)", DType::f64), "x = x + 0x1.999999999999ap-4;"));
    EXPECT_TRUE(has(source_of("mul(-2)", DType::bf16), "x = x * -0x1p+1f;"));
    EXPECT_TRUE(has(source_of("mul(1e300)"), "x = x * __int_as_float(0x7f800000);"));
    EXPECT_TRUE(has(source_of("add(-inf)", DType::f64), "x = x + -__longlong_as_double(0x7ff0000000000000);"));
}

TEST(EpilogueSource, LeavesOutBoundsThatNothingPasses) {
    EXPECT_TRUE(has(source_of("clamp(min=-1)"), "x = steps::at_least(x, -0x1p+0f);"));
    EXPECT_TRUE(has(source_of("clamp(max=1)"), "x = steps::at_most(x, 0x1p+0f);"));
    EXPECT_TRUE(has(source_of("clamp(min=inf)"), "x = steps::at_least(x, __int_as_float(0x7f800000));"));
}

TEST(EpilogueSource, ReadsItsTensorsWhereTheyBelong) {
    const std::string source = source_of("channel_mul relu residual_add", DType::f16);
    EXPECT_TRUE(has(source, "x = x * load(static_cast<const Storage*>(operands[0]) + channel);")) << source;
    EXPECT_TRUE(has(source, "x = x + load(static_cast<const Storage*>(operands[1]) + index);")) << source;
    EXPECT_TRUE(has(source, "constexpr int kOperandRoom = 2;"));
    EXPECT_TRUE(has(source, "using Storage = F16;"));
}

std::string bwd_source_of(const char* epilogue) {
    return epilogue_bwd_source(Epilogue::parse(epilogue), DType::f32);
}

TEST(EpilogueBwdSource, ComputesAgainWhatTheGradientsRead) {
    const std::string chain = bwd_source_of("channel_mul gelu residual_mul add(1)");
    EXPECT_TRUE(has(chain, "const Compute x1 = saved * values[0];\n    const Compute x2 = steps::gelu(x1);\n"
                           "    grad_values[1] = grad * x2;\n    grad = grad * values[1];\n"
                           "    grad = grad * derivatives::gelu(x1);\n    grad_values[0] = grad * saved;\n"
                           "    grad = grad * values[0];\n    return grad;"))
        << chain;
    EXPECT_FALSE(has(bwd_source_of("gelu residual_add mul(2)"), "const Compute x1"))
        << "no gradient reads the output of gelu";
    EXPECT_TRUE(has(bwd_source_of("channel_add add(2) div(4)"),
                    "grad = grad * (Compute(1) / 0x1p+2f);\n    grad_values[0] = grad;\n    return grad;"));
}

TEST(EpilogueBwdSource, TakesTheDerivativeFromTheOutputWhereThatIsSaved) {
    EXPECT_TRUE(has(bwd_source_of("mul(2) sigmoid"), "grad = grad * derivatives::sigmoid_from_output(saved);\n"
                                                     "    grad = grad * 0x1p+1f;"));
    EXPECT_TRUE(has(bwd_source_of("relu"), "grad = derivatives::masked(grad, derivatives::relu(saved));"));
    EXPECT_TRUE(has(bwd_source_of("elu(1.5)"), "derivatives::elu_from_output(saved, 0x1.8p+0f)"));
    EXPECT_TRUE(has(bwd_source_of("clamp(min=0)"),
                    "derivatives::masked(grad, derivatives::clamp(saved, 0x0p+0f, __int_as_float(0x7f800000)))"));
}

TEST(OutputArgument, IsTheRowOfPointersThatTheKernelReads) {
    Arguments arguments;
    int places[5] = {};
    arguments.preactivation = places + 1;
    arguments.bias = places + 2;
    const std::vector<const void*> bare = {places, places + 1, places + 2, nullptr};
    EXPECT_EQ(output_argument({}, arguments, places), bare);
    arguments.operands = {places + 3, places + 4};
    const std::vector<const void*> full = {places, places + 1, places + 2, places + 3, places + 4};
    EXPECT_EQ(output_argument(Epilogue::parse("channel_add residual_mul"), arguments, places), full);
}

} // namespace
} // namespace tconv3d::cuda
