// Which implementation a problem gets on a GPU, without one.
#include <gtest/gtest.h>

#include "cuda/implementation.hpp"
#include "tensors.hpp"

namespace tconv3d::cuda {
namespace {

using testing::error_of;
using testing::ScopedEnvironment;

Device made_up_device() {
    return {0, "a made-up GPU", 90, 132, 227 * 1024, 228 * 1024, 50 * 1024 * 1024};
}

Choice choose_for(const char* problem, const char* epilogue = "") {
    const Problem parsed = Problem::parse(problem);
    parsed.validate();
    return choose(parsed, Epilogue::parse(epilogue), made_up_device());
}

std::string name_for(const char* problem) {
    return choose_for(problem).implementation->name;
}

TEST(CudaChoice, TakesCellsForDepthwiseAndFewChannels) {
    for (const char* problem : {"n2 ci64 co64 32x32x32 k4 s2 p1 g64", "n2 ci64 co64 32x32x32 k4 s2 p1 g64 ndhwc bf16",
                                "n1 ci1 co1 64x64x64 k3 f64", "n1 ci3 co2 64x64x64 k2 s2 f16"})
        EXPECT_EQ(name_for(problem), "cells") << problem;
}

TEST(CudaChoice, FallsBackToTheGather) {
    for (const char* problem :
         {"n1 ci2 co2 3x3x3 k2 s100", "n1 ci2 co2 3x3x3 k600x1x1", "n1 ci1 co1 1x1x2 k1 s2000000000"})
        EXPECT_EQ(name_for(problem), "direct") << problem;
}

TEST(CudaChoice, GivesAReasonForEachOneItPassesOver) {
    const Choice slower = choose_for("n2 ci64 co64 32x32x32 k4 s2 p1 g64 f64");
    ASSERT_EQ(slower.rejections.size(), implementation_list().size() - 1);
    EXPECT_EQ(slower.rejections.back().implementation, "direct");
    EXPECT_NE(slower.rejections.back().reason.find("slower than cells's"), std::string::npos)
        << slower.rejections.back().reason;
    const Choice unable = choose_for("n1 ci2 co2 3x3x3 k2 s100");
    EXPECT_NE(unable.rejections.back().reason.find("kernel 2, stride 100"), std::string::npos)
        << unable.rejections.back().reason;
}

TEST(CudaChoice, CanBeForced) {
    const ScopedEnvironment forced("TCONV3D_CUDA_IMPL", "direct");
    const Choice choice = choose_for("n2 ci64 co64 32x32x32 k4 s2 p1 g64");
    EXPECT_STREQ(choice.implementation->name, "direct");
    ASSERT_EQ(choice.rejections.size(), implementation_list().size() - 1);
    for (const Rejection& rejection : choice.rejections) EXPECT_EQ(rejection.reason, "TCONV3D_CUDA_IMPL=direct");
}

TEST(CudaChoice, ForcingAnUnknownOrUnableOneIsAnError) {
    {
        const ScopedEnvironment forced("TCONV3D_CUDA_IMPL", "nothing");
        const std::string message = error_of([] { choose_for("n1 ci2 co2 3x3x3 k2"); });
        for (const std::string& name : implementations()) EXPECT_NE(message.find(name), std::string::npos) << message;
    }
    const ScopedEnvironment forced("TCONV3D_CUDA_IMPL", "cells");
    const std::string message = error_of([] { choose_for("n1 ci2 co2 3x3x3 k2 s100"); });
    EXPECT_NE(message.find("TCONV3D_CUDA_IMPL=cells cannot take n1 ci2 co2"), std::string::npos) << message;
    EXPECT_NE(message.find("on a made-up GPU: "), std::string::npos) << message;
}

TEST(CudaChoice, NamesEveryReasonWhenNoneAccepts) {
    const std::string message = error_of([] { choose_for("n1 ci2 co2 1x1x2 k1 s3000000000"); });
    EXPECT_NE(message.find("direct: takes strides below 2147483648, got 3000000000"), std::string::npos) << message;
}

TEST(CudaPlan, RefusesOtherDirectionsAndBadProblemsBeforeItLooksForAGpu) {
    const std::string direction = error_of([] { Plan(Problem::parse("ci2 co2 3x3x3 k2 bwd_data"), {}, 0); });
    EXPECT_NE(direction.find("carries out fwd, got bwd_data"), std::string::npos) << direction;
    const std::string problem = error_of([] { Plan(Problem::parse("ci3 co2 3x3x3 k2 g2"), {}, 0); });
    EXPECT_NE(problem.find("not divisible by groups 2"), std::string::npos) << problem;
}

TEST(CudaImplementations, NeedNoGpuToPrepare) {
    const Problem problem = Problem::parse("n1 ci2 co3 4x5x6 k3 s2 p1");
    for (const Implementation& implementation : implementation_list()) {
        if (!implementation.reject(problem, {}, made_up_device()).empty()) continue;
        EXPECT_GT(implementation.cost(problem, {}, made_up_device()), 0) << implementation.name;
        EXPECT_FALSE(implementation.prepare(problem, {}, made_up_device())->describe().empty()) << implementation.name;
    }
}

} // namespace
} // namespace tconv3d::cuda
