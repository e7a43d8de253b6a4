#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "epilogue_bwd_case.hpp"

namespace tconv3d {
namespace {

using testing::BackwardsExecutor;
using testing::error_of;
using Case = testing::EpilogueBwdCase;
using testing::Tensor;

constexpr const char* kChains[] = {
    "",
    "add(1) mul(-2) div(4)",
    "relu",
    "mul(0.5) leaky_relu(0.1)",
    "elu(1.5)",
    "sigmoid",
    "add(0.5) tanh",
    "clamp(min=-1.003,max=1.003) div(2)", // bounds that no half can hold: no value lies on a kink
    "silu channel_mul",
    "channel_add residual_add mul(3)",
    "channel_mul gelu residual_mul channel_add",
    "residual_mul softplus residual_add mish channel_mul",
    "gelu_tanh hardswish",
};

/// Compares with slopes of the chain itself.
void expect_gradients(const Case& c, double tolerance) {
    constexpr double h = 1e-6;
    std::vector<std::vector<double>> expected;
    for (const Tensor& operand : c.operands) expected.emplace_back(static_cast<size_t>(operand.count()), 0.0);
    for (int64_t i = 0; i < c.preactivation.count(); ++i) {
        const double slope = (c.value(i, h, -2, 0) - c.value(i, -h, -2, 0)) / (2 * h);
        const double gradient = c.grad_dst.at(i) * slope;
        ASSERT_NEAR(c.grad_preactivation.at(i), gradient, tolerance * (1 + std::abs(gradient))) << "element " << i;
        for (const Step& step : c.epilogue.steps()) {
            if (step.operand < 0) continue;
            const double moved = (c.value(i, 0, step.operand, h) - c.value(i, 0, step.operand, -h)) / (2 * h);
            expected[static_cast<size_t>(step.operand)][static_cast<size_t>(c.operand_index(step, i))] +=
                c.grad_dst.at(i) * moved;
        }
    }
    for (size_t operand = 0; operand < expected.size(); ++operand)
        for (size_t i = 0; i < expected[operand].size(); ++i) {
            const double actual = c.grad_operands[operand].at(static_cast<int64_t>(i));
            ASSERT_NEAR(actual, expected[operand][i], tolerance * (1 + std::abs(expected[operand][i])))
                << "operand " << operand << " element " << i;
        }
}

struct DTypeTolerance {
    const char* dtype;
    double tolerance;
};

/// A half saves and stores in its own precision.
constexpr DTypeTolerance kDTypes[] = {{"f64", 1e-7}, {"f32", 1e-4}, {"bf16", 0.03}, {"f16", 0.003}};

TEST(EpilogueBwd, IsTheSlopeOfTheChain) {
    for (const char* chain : kChains)
        for (const DTypeTolerance& dtype : kDTypes)
            for (const char* layout : {"ncdhw", "ndhwc"}) {
                const std::string line = std::string("n2 ci1 co3 5x7x11 k1 ") + dtype.dtype + " " + layout;
                SCOPED_TRACE(line + " " + chain);
                Case c(Problem::parse(line), chain);
                SerialExecutor executor;
                c.run(executor);
                expect_gradients(c, dtype.tolerance);
                EXPECT_TRUE(c.grad_preactivation.guards_intact());
                for (const Tensor& gradient : c.grad_operands) EXPECT_TRUE(gradient.guards_intact());
            }
}

TEST(EpilogueBwd, SameBitsForAnyWorkersOnVolumesOfSeveralChunks) {
    for (const char* layout : {"ncdhw", "ndhwc"}) {
        const Problem problem = Problem::parse(std::string("n2 ci1 co3 20x21x25 k1 f32 ") + layout);
        Case serial(problem, "channel_mul sigmoid residual_mul");
        Case backwards(problem, "channel_mul sigmoid residual_mul");
        SerialExecutor one;
        BackwardsExecutor five(5);
        serial.run(one);
        backwards.run(five);
        EXPECT_TRUE(serial.grad_preactivation.same_bits(backwards.grad_preactivation)) << layout;
        for (size_t i = 0; i < serial.grad_operands.size(); ++i)
            EXPECT_TRUE(serial.grad_operands[i].same_bits(backwards.grad_operands[i])) << layout << " " << i;
        expect_gradients(serial, 1e-3);
    }
}

TEST(EpilogueBwd, MasksInfiniteGradientsAsPyTorchDoes) {
    const Problem problem = Problem::parse("ci1 co1 1x1x2 k1 f64");
    constexpr double kInf = std::numeric_limits<double>::infinity();
    for (const char* chain : {"relu", "clamp(min=0)", "hardswish"}) {
        Case c(problem, chain);
        c.preactivation = Tensor::of(DType::f64, {-5, 5});
        c.grad_dst = Tensor::of(DType::f64, {kInf, kInf});
        SerialExecutor executor;
        c.run(executor);
        EXPECT_EQ(c.grad_preactivation.values(), (std::vector<double>{0, kInf})) << chain;
    }
}

TEST(EpilogueBwd, AnEmptyBatchGivesZeroChannelGradients) {
    Case c(Problem::parse("n0 ci1 co3 2x2x2 k1"), "channel_mul");
    SerialExecutor executor;
    c.run(executor);
    EXPECT_EQ(c.grad_operands[0].values(), (std::vector<double>{0, 0, 0}));
}

TEST(EpilogueBwd, LeavesOutUnwantedGradients) {
    Case c(Problem::parse("ci1 co3 2x2x2 k1"), "channel_mul residual_mul");
    EpilogueGradients gradients;
    gradients.grad_dst = c.grad_dst.data();
    gradients.saved = c.preactivation.data();
    gradients.operands = {c.operands[0].data(), c.operands[1].data()};
    gradients.grad_preactivation = c.grad_preactivation.data();
    gradients.grad_operands = {nullptr, c.grad_operands[1].data()};
    SerialExecutor executor;
    epilogue_bwd(c.problem, c.epilogue, gradients, executor);
    EXPECT_TRUE(std::isnan(c.grad_operands[0].at(0)));
    EXPECT_FALSE(std::isnan(c.grad_operands[1].at(0)));
    gradients.grad_operands.clear();
    EXPECT_NO_THROW(epilogue_bwd(c.problem, c.epilogue, gradients, executor));
}

TEST(EpilogueBwd, ErrorsNameWhatIsMissing) {
    const Problem problem = Problem::parse("ci1 co3 2x2x2 k1");
    const Epilogue epilogue = Epilogue::parse("channel_mul");
    Tensor data(DType::f32, 1000);
    SerialExecutor executor;
    EpilogueGradients gradients;
    const auto error = [&] { return error_of([&] { epilogue_bwd(problem, epilogue, gradients, executor); }); };
    EXPECT_EQ(error(), "epilogue 'channel_mul' takes 1 tensors, got 0");
    gradients.operands = {data.data()};
    EXPECT_EQ(error(), "epilogue_bwd needs grad_dst, got a null pointer");
    gradients.grad_dst = data.data();
    EXPECT_EQ(error(), "epilogue_bwd needs saved, got a null pointer");
    gradients.saved = data.data();
    EXPECT_EQ(error(), "epilogue_bwd needs grad_preactivation, got a null pointer");
    gradients.grad_preactivation = data.data();
    gradients.grad_operands = {nullptr, nullptr};
    EXPECT_EQ(error(), "epilogue_bwd takes no grad_operands or one per operand, got 2 for 1 operands");
}

} // namespace
} // namespace tconv3d
