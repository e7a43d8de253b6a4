#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tconv3d/epilogue.hpp"
#include "tensors.hpp"

namespace tconv3d {
namespace {

using testing::error_of;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr const char* kEveryStep[] = {
    "add(0.5)",    "mul(-3)",         "div(4)",       "clamp(min=-1,max=0.5)",
    "relu",        "leaky_relu(0.2)", "elu(1.5)",     "silu",
    "gelu",        "gelu_tanh",       "sigmoid",      "tanh",
    "hardswish",   "softplus(2,20)",  "mish",         "channel_add",
    "channel_mul", "residual_add",    "residual_mul",
};

Step step_of(const char* text) {
    return Epilogue::parse(text).steps().at(0);
}

TEST(EpilogueText, RoundTripsInCanonicalForm) {
    for (const char* step : kEveryStep) EXPECT_EQ(Epilogue::parse(step).str(), step);
    for (const char* chain : {"", "clamp(min=-1) div(2)", "clamp(max=0.1)", "relu channel_mul add(1e-05) residual_add",
                              "mul(1e+300)", "add(0.30000000000000004)", "add(-0)", "clamp(min=inf)"})
        EXPECT_EQ(Epilogue::parse(chain).str(), chain);
}

TEST(EpilogueText, TakesNamesBlanksAndDefaults) {
    EXPECT_EQ(Epilogue::parse("  clamp( min = -1 , max = 2 )   div( v=2 ) ").str(), "clamp(min=-1,max=2) div(2)");
    EXPECT_EQ(Epilogue::parse("clamp(-1,2)").str(), "clamp(min=-1,max=2)");
    EXPECT_EQ(Epilogue::parse("clamp(max=2)"), Epilogue({{StepKind::clamp, -kInf, 2}}));
    EXPECT_EQ(Epilogue::parse("leaky_relu").str(), "leaky_relu(0.01)");
    EXPECT_EQ(Epilogue::parse("leaky_relu(slope=0.3)").str(), "leaky_relu(0.3)");
    EXPECT_EQ(Epilogue::parse("elu").str(), "elu(1)");
    EXPECT_EQ(Epilogue::parse("softplus").str(), "softplus(1,20)");
    EXPECT_EQ(Epilogue::parse("softplus(threshold=5)").str(), "softplus(1,5)");
    EXPECT_EQ(Epilogue::parse("relu()").str(), "relu");
    EXPECT_TRUE(Epilogue::parse("   ").empty());
}

TEST(EpilogueText, ErrorsNameTheWord) {
    struct Bad {
        const char* text;
        const char* fragment;
    };
    for (const Bad& bad : {
             Bad{"relu swish", "unknown step 'swish'"},
             Bad{"add", "missing constant v of 'add'"},
             Bad{"add()", "missing constant v of 'add'"},
             Bad{"add(1,2)", "too many constants for add: '2'"},
             Bad{"relu(1)", "too many constants for relu: '1'"},
             Bad{"clamp(low=1)", "clamp has no such constant: 'low=1'"},
             Bad{"clamp(min=1,min=2)", "min is given twice: 'min=2'"},
             Bad{"clamp(1,min=2)", "min is given twice: 'min=2'"},
             Bad{"add(one)", "not a number: 'one'"},
             Bad{"add(1x)", "not a number: '1x'"},
             Bad{"add(1e999)", "number out of range: '1e999'"},
             Bad{"add(1,)", "missing constant after '1'"},
             Bad{"add(1", "missing ) after 'add'"},
             Bad{"add(1)relu", "missing blank before 'relu'"},
             Bad{"div(0)", "'div(0)' divides by zero"},
             Bad{"div(-0)", "divides by zero"},
             Bad{"softplus(0)", "beta of zero"},
             Bad{"add(nan)", "'add(nan)' has a NaN constant"},
             Bad{"softplus(1,nan)", "NaN constant"},
             Bad{"clamp", "needs a min or a max"},
             Bad{"clamp(min=-inf)", "needs a min or a max"},
         }) {
        const std::string message = error_of([&] { Epilogue::parse(bad.text); });
        EXPECT_NE(message.find(bad.fragment), std::string::npos) << bad.text << " -> " << message;
    }
}

TEST(Epilogue, NumbersItsTensorsInOrder) {
    const Epilogue epilogue = Epilogue::parse("channel_add relu residual_mul channel_mul");
    EXPECT_EQ(epilogue.operand_count(), 3);
    EXPECT_EQ(epilogue.steps()[0].operand, 0);
    EXPECT_EQ(epilogue.steps()[1].operand, -1);
    EXPECT_EQ(epilogue.steps()[2].operand, 1);
    EXPECT_EQ(epilogue.steps()[3].operand, 2);
}

TEST(Epilogue, ForgetsConstantsThatAStepDoesNotHave) {
    EXPECT_EQ(Epilogue({{StepKind::relu, 7, 8, 9}}), Epilogue::parse("relu"));
    EXPECT_EQ(Epilogue({{StepKind::add, 7, 8}}), Epilogue::parse("add(7)"));
    EXPECT_THROW(Epilogue({{StepKind::div, 0}}), Error);
}

TEST(Epilogue, SavesWhatItsDerivativeNeeds) {
    for (const char* chain : {"", "add(1)", "mul(2) div(3) add(1)", "channel_add residual_add mul(2)"})
        EXPECT_EQ(Epilogue::parse(chain).saved(), Saved::nothing) << chain;
    for (const char* chain : {"relu", "sigmoid", "tanh", "elu", "leaky_relu", "add(1) div(2) mul(3) relu"})
        EXPECT_EQ(Epilogue::parse(chain).saved(), Saved::output) << chain;
    for (const char* chain :
         {"clamp(min=0)", "relu div(2)", "relu relu", "leaky_relu(0)", "leaky_relu(-0.1)", "elu(0)", "elu(-1)", "silu",
          "gelu", "channel_mul", "residual_mul", "channel_add relu", "residual_add sigmoid", "hardswish", "mish",
          "softplus", "gelu_tanh", "clamp(min=-1) div(2)"})
        EXPECT_EQ(Epilogue::parse(chain).saved(), Saved::preactivation) << chain;
}

TEST(Steps, DerivativeIsTheSlopeOfTheValue) {
    constexpr double h = 1e-6;
    for (const char* text : kEveryStep)
        for (double x = -4.05; x < 4.1; x += 0.1) { // never on a kink
            const Step step = step_of(text);
            const double slope = (step_value(step, x + h, 0.7) - step_value(step, x - h, 0.7)) / (2 * h);
            EXPECT_NEAR(step_derivative(step, x, 0.7), slope, 1e-8) << text << " at " << x;
        }
}

struct Known {
    const char* step;
    double x;
    double value;
    double derivative;
};

void expect_same(double actual, double expected, const Known& known, const char* what) {
    if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(actual)) << known.step << " " << what << " at " << known.x;
    else if (std::isinf(expected))
        EXPECT_EQ(actual, expected) << known.step << " " << what << " at " << known.x;
    else
        EXPECT_NEAR(actual, expected, 1e-6) << known.step << " " << what << " at " << known.x;
}

/// Printed by PyTorch in float64: kinks, infinities and NaN.
TEST(Steps, AgreeWithPyTorchAtKinksAndSpecialValues) {
    for (const Known& known : {
             Known{"relu", 0, 0, 0},
             Known{"relu", kNan, kNan, 1},
             Known{"relu", kInf, kInf, 1},
             Known{"relu", -kInf, 0, 0},
             Known{"leaky_relu(0.1)", 0, 0, 0.1},
             Known{"leaky_relu(0.1)", kNan, kNan, 0.1},
             Known{"leaky_relu(0.1)", -kInf, -kInf, 0.1},
             Known{"clamp(-1,1)", -1, -1, 1},
             Known{"clamp(-1,1)", 1, 1, 1},
             Known{"clamp(-1,1)", 2, 1, 0},
             Known{"clamp(-1,1)", kNan, kNan, 0},
             Known{"clamp(min=-1)", -2, -1, 0},
             Known{"clamp(min=-1)", kInf, kInf, 1},
             Known{"clamp(1,-1)", 0, -1, 0},
             Known{"hardswish", -3, 0, 0},
             Known{"hardswish", 3, 3, 1},
             Known{"hardswish", 2.9999, 2.99985, 1.499967},
             Known{"hardswish", -2.9999, -5e-05, -0.499967},
             Known{"hardswish", kNan, kNan, 1},
             Known{"hardswish", kInf, kInf, 1},
             Known{"hardswish", -kInf, kNan, 0},
             Known{"softplus", 0, 0.693147, 0.5},
             Known{"softplus", 20.001, 20.001, 1},
             Known{"softplus", -800, 0, 0},
             Known{"softplus", kInf, kInf, 1},
             Known{"softplus", kNan, kNan, kNan},
             Known{"softplus(-1,20)", -21, -21, 1},
             Known{"softplus(-1,20)", 1, -0.313262, 0.268941},
             Known{"elu", 0, 0, 1},
             Known{"elu", -1, -0.632121, 0.367879},
             Known{"elu", kNan, kNan, 1},
             Known{"elu", -kInf, -1, 0},
             Known{"elu(-1)", 0, 0, -1},
             Known{"silu", -1, -0.268941, 0.072329},
             Known{"silu", -800, 0, 0},
             Known{"silu", kInf, kInf, kNan},
             Known{"silu", -kInf, kNan, kNan},
             Known{"gelu", 0, 0, 0.5},
             Known{"gelu", -50, 0, 0},
             Known{"gelu", 50, 50, 1},
             Known{"gelu", -kInf, kNan, kNan},
             Known{"gelu_tanh", 50, 50, 1},
             Known{"gelu_tanh", kInf, kInf, kNan},
             Known{"mish", -1, -0.303401, 0.059217},
             Known{"mish", 800, 800, 1},
             Known{"mish", -800, 0, 0},
             Known{"sigmoid", -800, 0, 0},
             Known{"sigmoid", kNan, kNan, kNan},
             Known{"tanh", kInf, 1, 0},
         }) {
        const Step step = step_of(known.step);
        expect_same(step_value(step, known.x), known.value, known, "value");
        expect_same(step_derivative(step, known.x), known.derivative, known, "derivative");
    }
}

} // namespace
} // namespace tconv3d
