// Which implementation a problem gets on a GPU, without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "cuda/select/family.hpp"
#include "cuda/select/tune.hpp"
#include "scratch_folder.hpp"
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
    return choose_for(problem).family->name;
}

TEST(CudaChoice, TakesCellsForDepthwiseAndFewChannels) {
    for (const char* problem : {"n2 ci64 co64 32x32x32 k4 s2 p1 g64", "n2 ci64 co64 32x32x32 k4 s2 p1 g64 ndhwc bf16",
                                "n1 ci1 co1 64x64x64 k3 f64", "n1 ci3 co2 64x64x64 k2 s2 f16"})
        EXPECT_EQ(name_for(problem), "cells") << problem;
}

/// In channels_last_3d the lanes of a warp would read voxels that lie apart.
TEST(CudaChoice, TakesCellsForOneOfManyChannelsWhereVoxelsAreNeighbours) {
    EXPECT_EQ(name_for("n16 ci64 co1 32x32x32 k4 s2 p1 f32"), "cells");
    EXPECT_EQ(name_for("n16 ci64 co1 32x32x32 k4 s2 p1 f32 ndhwc"), "stream");
}

TEST(CudaChoice, FallsBackToTheGather) {
    for (const char* problem :
         {"n1 ci2 co2 3x3x3 k2 s100", "n1 ci2 co2 3x3x3 k600x1x1", "n1 ci1 co1 1x1x2 k1 s2000000000"})
        EXPECT_EQ(name_for(problem), "direct") << problem;
}

TEST(CudaChoice, GivesAReasonForEachOneItPassesOver) {
    const Choice slower = choose_for("n2 ci64 co64 32x32x32 k4 s2 p1 g64 f64");
    ASSERT_EQ(slower.rejections.size(), families().size() - 1);
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
    EXPECT_STREQ(choice.family->name, "direct");
    ASSERT_EQ(choice.rejections.size(), families().size() - 1);
    for (const Rejection& rejection : choice.rejections) EXPECT_EQ(rejection.reason, "TCONV3D_CUDA_IMPL=direct");
}

/// What has not run on a GPU is neither taken nor tuned by itself.
TEST(CudaChoice, TakesWhatHasNotRunOnlyWhereItIsForced) {
    const char* const text = "n2 ci64 co64 16x16x16 k3 bf16 ndhwc bwd_weight";
    const Choice unasked = choose_for(text);
    const auto is_outer = [](const auto& each) { return each.implementation == "outer"; };
    const auto found = std::find_if(unasked.rejections.begin(), unasked.rejections.end(), is_outer);
    ASSERT_NE(found, unasked.rejections.end());
    EXPECT_EQ(found->reason, "has not run on a GPU yet: only TCONV3D_CUDA_IMPL=outer takes it");
    const std::vector<Candidate> all = candidates(Problem::parse(text), {}, made_up_device());
    EXPECT_TRUE(std::none_of(all.begin(), all.end(), is_outer));
    const ScopedEnvironment forced("TCONV3D_CUDA_IMPL", "outer");
    EXPECT_EQ(name_for(text), "outer");
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

constexpr const char* kManyTiles = "n2 ci64 co64 16x16x16 k3 s2 p1 op1 bf16";

std::vector<std::string> stream_variants_of(const char* problem) {
    std::vector<std::string> names;
    const Problem parsed = Problem::parse(problem);
    for (const KernelCandidate& candidate :
         families().front().answer({parsed, {}, made_up_device(), kMostCandidates}).candidates)
        names.push_back(candidate.name);
    return names;
}

TEST(CudaChoice, TakesWhatTuningRemembered) {
    const testing::ScratchFolder folder;
    const ScopedEnvironment cache("TCONV3D_CACHE_DIR", folder / "cache");
    const std::vector<std::string> variants = stream_variants_of(kManyTiles);
    ASSERT_GT(variants.size(), 2U);
    EXPECT_NE(choose_for(kManyTiles).candidate.name, variants[2]);
    remember(Problem::parse(kManyTiles), made_up_device(), {"stream", variants[2]});
    const Choice choice = choose_for(kManyTiles);
    EXPECT_STREQ(choice.family->name, "stream");
    EXPECT_EQ(choice.candidate.name, variants[2]);
    EXPECT_EQ(choice.rejections.front().reason, "slower than stream when this problem was tuned");
    const std::unique_ptr<Kernel> kernel = choice.candidate.prepare();
    EXPECT_NE(kernel->describe().find(variants[2]), std::string::npos) << kernel->describe();
}

TEST(CudaChoice, IgnoresWhatIsNotToBeHadAnyMore) {
    const testing::ScratchFolder folder;
    const ScopedEnvironment cache("TCONV3D_CACHE_DIR", folder / "cache");
    const std::vector<Candidate> gone = {{"stream", "a tile of long ago"}, {"nothing", ""}, {"", ""}};
    const Choice by_estimate = choose_for(kManyTiles);
    for (const Candidate& candidate : gone) {
        remember(Problem::parse(kManyTiles), made_up_device(), candidate);
        EXPECT_EQ(choose_for(kManyTiles).family, by_estimate.family);
        EXPECT_EQ(choose_for(kManyTiles).candidate.name, by_estimate.candidate.name);
    }
}

TEST(CudaChoice, SaysWhyNothingCanBeRemembered) {
    const ScopedEnvironment cache("TCONV3D_CACHE", "0");
    EXPECT_EQ(error_of([] { remember(Problem::parse(kManyTiles), made_up_device(), {"stream", ""}); }),
              "what was measured cannot be remembered: there is no cache, turned off by TCONV3D_CACHE=0");
}

TEST(CudaChoice, CandidatesBeginWithTheBestByEstimate) {
    for (const char* text : {kManyTiles, "n1 ci32 co16 4x9x8 k3 p1 tf32", "n2 ci64 co64 32x32x32 k4 s2 p1 g64"}) {
        const std::vector<Candidate> all = candidates(Problem::parse(text), {}, made_up_device());
        ASSERT_FALSE(all.empty()) << text;
        EXPECT_EQ(all.front().implementation, name_for(text)) << text;
    }
    // Short problems are hard to estimate: they keep the tensor cores' tiles beside the gather that is taken.
    EXPECT_GT(candidates(Problem::parse("n1 ci32 co16 4x9x8 k3 p1 tf32"), {}, made_up_device()).size(), 8U);
}

TEST(CudaChoice, AVariantCanBeForced) {
    const ScopedEnvironment forced("TCONV3D_CUDA_IMPL", "stream");
    const std::string wanted = stream_variants_of(kManyTiles).back();
    {
        const ScopedEnvironment variant("TCONV3D_CUDA_VARIANT", wanted);
        EXPECT_EQ(choose_for(kManyTiles).candidate.name, wanted);
    }
    const ScopedEnvironment variant("TCONV3D_CUDA_VARIANT", "no such tile");
    const std::string message = error_of([] { choose_for(kManyTiles); });
    for (const std::string& part :
         {std::string("TCONV3D_CUDA_VARIANT=no such tile names no variant of stream"), wanted})
        EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(CudaChoice, LeavesTapsThatLieFarApartToDirect) {
    for (const char* problem :
         {"ci1 co1 1x1x1 k2x1x1 d4611686018427387904x1x1 p2305843009213693952x0x0 bf16",
          "ci8 co8 2x2x2 k3 d1x2147483648x1 p0x2147483648x0 tf32", "ci8 co8 2x2x2 k2 s3 d1x1x9007199254740993"})
        EXPECT_EQ(name_for(problem), "direct") << problem;
}

/// Nothing is gone through one by one that has no bound: images, rows, slices, taps.
TEST(CudaChoice, TakesNoLongerForLargeSizes) {
    for (const char* problem : {"n100000000 ci32 co32 4x4x4 k3 p1 bf16 ndhwc", "ci16 co16 1x500000000x1 k3 p1 bf16",
                                "ci16 co16 500000000x1x1 k3 p1 tf32", "ci16 co16 1x1x500000000 k3 p1 bf16",
                                "ci1 co1 1x1x1 k1000000000x1x1 bf16", "ci16 co16 8x8x8 k512x1x1 d1000x1x1 bf16"}) {
        const std::clock_t begin = std::clock(); // of this process: others may have the cores
        choose_for(problem);
        // It takes less than 2 ms, more under the sanitizers; one by one, seconds.
        EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 2) << problem;
    }
}

TEST(CudaChoice, TakesNoMoreChannelsThan32BitsCount) {
    const std::string message = error_of([] { choose_for("ci1 co2147483664 1x1x1 k1"); });
    for (const char* family : {"cells", "direct"})
        EXPECT_NE(message.find(std::string(family) + ": takes fewer than"), std::string::npos) << message;
    EXPECT_NE(message.find("got 1 and 2147483664"), std::string::npos) << message;
}

TEST(CudaChoice, NamesEveryReasonWhenNoneAccepts) {
    const std::string message = error_of([] { choose_for("n1 ci2 co2 1x1x2 k1 s3000000000"); });
    EXPECT_NE(message.find("direct: takes strides below 2147483648, got 3000000000"), std::string::npos) << message;
}

TEST(CudaPlan, RefusesBadProblemsBeforeItLooksForAGpu) {
    const std::string epilogue =
        error_of([] { Plan(Problem::parse("ci2 co2 3x3x3 k2 bwd_data"), Epilogue::parse("relu"), 0); });
    EXPECT_EQ(epilogue, "an epilogue belongs to fwd, got 'relu' with bwd_data");
    const std::string problem = error_of([] { Plan(Problem::parse("ci3 co2 3x3x3 k2 g2"), {}, 0); });
    EXPECT_NE(problem.find("not divisible by groups 2"), std::string::npos) << problem;
}

TEST(CudaImplementations, NeedNoGpuToPrepare) {
    const Problem problem = Problem::parse("n1 ci2 co3 4x5x6 k3 s2 p1");
    for (const Family& family : families()) {
        const Answer answer = family.answer({problem, {}, made_up_device()});
        if (!answer.accepts()) continue;
        ASSERT_EQ(answer.candidates.size(), 1U) << family.name;
        EXPECT_GT(answer.candidates.front().microseconds, 0) << family.name;
        EXPECT_FALSE(answer.candidates.front().prepare()->describe().empty()) << family.name;
    }
}

} // namespace
} // namespace tconv3d::cuda
