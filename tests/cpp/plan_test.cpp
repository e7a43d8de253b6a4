#include <gtest/gtest.h>

#include "core/implementation.hpp"
#include "tconv3d/plan.hpp"
#include "tensors.hpp"

namespace tconv3d {
namespace {

using testing::error_of;
using testing::ScopedEnvironment;
using testing::Tensor;

const Problem kProblem = Problem::parse("n1 ci2 co3 2x2x2 k3 s2 p1");

void expect_contains(const std::string& text, const std::string& fragment) {
    EXPECT_NE(text.find(fragment), std::string::npos) << "'" << fragment << "' is not in: " << text;
}

TEST(Plan, TakesTheFirstOfTheList) {
    const ScopedEnvironment unforced("TCONV3D_IMPL", "");
    const Plan plan(kProblem);
    EXPECT_EQ(plan.implementation(), implementations().front());
    EXPECT_EQ(implementations().back(), "reference");
    EXPECT_TRUE(plan.rejections().empty());
}

TEST(Plan, CanBeForced) {
    const ScopedEnvironment forced("TCONV3D_IMPL", "reference");
    const Plan plan(kProblem);
    EXPECT_EQ(plan.implementation(), "reference");
    EXPECT_EQ(plan.rejections().size(), implementations().size() - 1);
    for (const Rejection& rejection : plan.rejections()) EXPECT_EQ(rejection.reason, "TCONV3D_IMPL=reference");
}

TEST(Plan, ForcingAnUnknownNameListsTheKnownOnes) {
    const ScopedEnvironment forced("TCONV3D_IMPL", "warp");
    const std::string message = error_of([] { Plan plan(kProblem); });
    expect_contains(message, "TCONV3D_IMPL=warp names no implementation");
    for (const std::string& name : implementations()) expect_contains(message, name);
}

TEST(Plan, RejectionsCarryAReasonAndForcingTheRejectedIsAnError) {
    const Problem wide_stride = Problem::parse("ci1 co1 1x1x1 k1 s1000000000");
    const Implementation& first = implementation_list().front();
    const std::string reason = first.answer(wide_stride, {}).reason;
    ASSERT_FALSE(reason.empty());
    {
        const ScopedEnvironment unforced("TCONV3D_IMPL", "");
        const Plan plan(wide_stride);
        ASSERT_FALSE(plan.rejections().empty());
        EXPECT_EQ(plan.rejections()[0].implementation, first.name);
        EXPECT_EQ(plan.rejections()[0].reason, reason);
        expect_contains(plan.explain(), std::string(first.name) + ": " + reason);
    }
    const ScopedEnvironment forced("TCONV3D_IMPL", first.name);
    const std::string message = error_of([&] { Plan plan(wide_stride); });
    expect_contains(message, "cannot take n1 ci1 co1 1x1x1");
    expect_contains(message, reason);
}

TEST(Plan, ValidatesItsProblem) {
    expect_contains(error_of([] { Plan plan(Problem::parse("ci3 co1 1x1x1 k1 g2")); }), "divisible");
    const std::string message =
        error_of([] { Plan plan(Problem::parse("ci1 co1 1x1x1 k1 bwd_data"), Epilogue::parse("relu")); });
    expect_contains(message, "an epilogue belongs to fwd, got 'relu' with bwd_data");
}

TEST(Plan, ExplainsItself) {
    const ScopedEnvironment forced("TCONV3D_IMPL", "reference");
    const Plan plan(Problem::parse("n8 ci48 co24 96x96x96 k3"), Epilogue::parse("clamp(min=-1) div(2)"));
    const std::string text = plan.explain();
    for (const char* fragment :
         {"n8 ci48 co24 96x96x96 k3 s1 p0 op0 d1 g1 f32 ncdhw fwd\n", "98\n", "440.3 Gflop\n", "2.082 GB\n",
          "211.5 flop/B\n", "clamp(min=-1) div(2); backward keeps the preactivation\n", "reference: nested loops",
          "TCONV3D_IMPL=reference", "workspace       0 B\n"})
        expect_contains(text, fragment);
}

/// Executes with the pointers that are named, the others null, and returns the error.
std::string error_without(const Problem& problem, const char* missing, const Epilogue& epilogue = {}) {
    Tensor data(DType::f32, 1000);
    Arguments arguments;
    const auto set = [&](auto& pointer, const char* name) {
        if (std::string(name) != missing) pointer = data.data();
    };
    set(arguments.src, "src");
    set(arguments.weight, "weight");
    set(arguments.grad_dst, "grad_dst");
    set(arguments.dst, "dst");
    set(arguments.grad_src, "grad_src");
    set(arguments.grad_weight, "grad_weight");
    SerialExecutor executor;
    return error_of([&] { Plan(problem, epilogue).execute(arguments, executor); });
}

TEST(PlanExecute, NamesTheMissingPointer) {
    struct Needed {
        const char* direction;
        std::vector<const char*> names;
    };
    for (const Needed& needed :
         {Needed{"fwd", {"src", "weight", "dst"}}, Needed{"bwd_data", {"grad_dst", "weight", "grad_src"}},
          Needed{"bwd_weight", {"src", "grad_dst", "grad_weight"}}})
        for (const char* name : needed.names) {
            const Problem problem = Problem::parse(std::string("ci1 co1 1x1x1 k1 ") + needed.direction);
            EXPECT_EQ(error_without(problem, name),
                      std::string(needed.direction) + " needs " + name + ", got a null pointer");
        }
}

TEST(PlanExecute, CountsTheTensorsOfTheEpilogue) {
    const std::string message = error_without(kProblem, "", Epilogue::parse("channel_mul residual_add"));
    EXPECT_EQ(message, "epilogue 'channel_mul residual_add' takes 2 tensors, got 0");
    Tensor data(DType::f32, 1000);
    Arguments arguments;
    arguments.src = arguments.weight = data.data();
    arguments.dst = data.data();
    arguments.operands.push_back(nullptr);
    SerialExecutor executor;
    const Plan plan(kProblem, Epilogue::parse("relu channel_mul"));
    EXPECT_EQ(error_of([&] { plan.execute(arguments, executor); }),
              "fwd needs operand 0 (channel_mul), got a null pointer");
}

TEST(PlanExecute, TakesNoWeightInChannelsLast) {
    Tensor data(DType::f32, 1000);
    Arguments arguments;
    arguments.src = arguments.weight = data.data();
    arguments.dst = data.data();
    arguments.weight_channels_last = true;
    SerialExecutor executor;
    const Plan plan(kProblem);
    EXPECT_EQ(error_of([&] { plan.execute(arguments, executor); }),
              "the CPU takes the weight as (ci, co / g, kD, kH, kW), got weight_channels_last = true");
}

TEST(PlanExecute, ChecksTheWorkspace) {
    const ScopedEnvironment unforced("TCONV3D_IMPL", "");
    const Plan plan(kProblem);
    SerialExecutor executor;
    if (plan.workspace_bytes(1) == 0) GTEST_SKIP() << plan.implementation() << " needs no workspace";
    std::vector<char> memory(plan.workspace_bytes(1) + 128);
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
    Tensor data(DType::f32, 1000);
    Arguments arguments;
    arguments.src = arguments.weight = data.data();
    arguments.dst = data.data();
    expect_contains(error_of([&] { plan.execute(arguments, executor, nullptr); }), "needs a workspace of");
    expect_contains(error_of([&] { plan.execute(arguments, executor, reinterpret_cast<void*>(aligned + 4)); }),
                    "aligned to 64 bytes");
}

/// Taps that lie so far apart that sizes between them wrap: nothing is reached, and dst is zero.
TEST(PlanExecute, TakesTapsThatLieFarApart) {
    const std::string geometry = "ci1 co1 1x1x1 k2x1x1 d4611686018427387904x1x1 p2305843009213693952x0x0 ";
    for (const char* direction : {"fwd", "bwd_data", "bwd_weight"}) {
        const Plan plan(Problem::parse(geometry + direction));
        EXPECT_EQ(plan.implementation(), "columns") << direction;
        expect_contains(plan.rejections().front().reason, "dilation 4611686018427387904x1x1");
        std::mt19937 random(1);
        Tensor one = Tensor::reals(DType::f32, 1, random), two = Tensor::reals(DType::f32, 2, random);
        Tensor result = Tensor::reals(DType::f32, 2, random);
        Arguments arguments;
        arguments.src = arguments.grad_dst = one.data();
        arguments.weight = two.data();
        arguments.dst = arguments.grad_src = arguments.grad_weight = result.data();
        SerialExecutor executor;
        plan.execute(arguments, executor);
        EXPECT_EQ(result.at(0), 0) << direction;
    }
}

TEST(PlanExecute, AnEmptyBatchNeedsNoTensors) {
    for (const char* direction : {"fwd", "bwd_data"}) {
        Tensor weight(DType::f32, 1);
        Arguments arguments;
        arguments.weight = weight.data();
        SerialExecutor executor;
        const Plan plan(Problem::parse(std::string("n0 ci1 co1 2x2x2 k1 ") + direction));
        EXPECT_NO_THROW(plan.execute(arguments, executor)) << direction;
    }
}

} // namespace
} // namespace tconv3d
