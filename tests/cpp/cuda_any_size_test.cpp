// Which kernels serve a layer whatever the size of its tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "cuda/select/family.hpp"
#include "cuda/tensorcore/any_size.hpp"
#include "cuda/tensorcore/families.hpp"
#include "cuda/tensorcore/source.hpp"
#include "made_up_devices.hpp"
#include "tconv3d/error.hpp"
#include "tensors.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::kHopper;
using testing::ScopedEnvironment;

constexpr const char* kLayers[] = {"ci64 co32 k2 s2",
                                   "ci320 co320 k2 s2",
                                   "ci128 co64 k3 s2 p1 op1",
                                   "ci256 co128 k4 s2 p1",
                                   "ci48 co24 k3",
                                   "ci32 co64 k3 p1",
                                   "ci16 co16 k5 p2",
                                   "ci64 co3 k4 s2 p1",
                                   "ci256 co256 k3 p1",
                                   "ci32 co32 k3x5x7 s2 p1x2x3 op1 g4"};

/// A layer at extents that nobody chose.
Problem drawn(std::mt19937& random, const std::string& layer, const std::string& mode) {
    const auto draw = [&](uint32_t least, uint32_t most) {
        return std::to_string(least + random() % (most - least + 1));
    };
    const std::string batch = draw(1, 4), d = draw(4, 96), h = draw(4, 96), w = draw(4, 96);
    return Problem::parse("n" + batch + " " + d + "x" + h + "x" + w + " " + layer + " " + mode);
}

/// The best estimate of the configs that are made for the size.
double specialised_microseconds(const Problem& problem) {
    double least = best_tilings(problem, kHopper, Engine::wgmma, Form::streamed, 1).front().config.schedule.clocks;
    for (const Tiling& gathered : best_tilings(problem, kHopper, Engine::wgmma, Form::gathered, 1))
        least = std::min(least, gathered.config.schedule.clocks);
    return Schedule{0, 0, 0, least}.microseconds();
}

class AnySize : public ::testing::TestWithParam<const char*> {};

/// By the estimates, of which those of stores that have not been timed are guesses.
TEST_P(AnySize, FewKernelsServeALayerAndLoseLittle) {
    constexpr int kDraws = 30;
    double losses = 0;
    int counted = 0;
    for (const char* layer : kLayers) {
        std::mt19937 random(1);
        std::set<std::string> kernels;
        for (int i = 0; i < kDraws; ++i) {
            const Problem problem = drawn(random, layer, GetParam());
            const std::vector<Tiling> tilings = any_size_tilings(problem, kHopper, Engine::wgmma);
            if (tilings.empty() || problem.dst_elements() >= int64_t{1} << 31) continue;
            const auto& [tables, config] = tilings.front();
            EXPECT_LE(config.pipeline.shared_bytes, kHopper.shared_memory_per_block) << problem.str();
            kernels.insert(kernel_request(problem, tables, config, {}, {true, false}).prelude);
            losses += std::log(config.schedule.microseconds() / specialised_microseconds(problem));
            ++counted;
        }
        EXPECT_LE(kernels.size(), 6u) << layer;
        EXPECT_GE(kernels.size(), 1u) << layer;
    }
    EXPECT_GE(counted, 9 * kDraws) << "most sizes have a kernel";
    EXPECT_LE(std::exp(losses / counted), 1.05) << "estimated time over that of kernels made for the size";
}

INSTANTIATE_TEST_SUITE_P(All, AnySize, ::testing::Values("tf32", "bf16", "tf32 ndhwc", "bf16 ndhwc"));

TEST(AnySizeChoice, IsMadeWhereItIsAskedFor) {
    const Problem problem = Problem::parse("n2 ci48 co24 21x22x23 k3 bf16");
    const auto is_for_any = [&] { return choose(problem, {}, kHopper).candidate.name.rfind("any size: ", 0) == 0; };
    EXPECT_FALSE(is_for_any());
    {
        const ScopedEnvironment sizes("TCONV3D_CUDA_SIZES", "any");
        EXPECT_TRUE(is_for_any());
    }
    const ScopedEnvironment sizes("TCONV3D_CUDA_SIZES", "one");
    EXPECT_FALSE(is_for_any());
}

TEST(AnySizeChoice, NamesAnUnknownSetting) {
    const ScopedEnvironment sizes("TCONV3D_CUDA_SIZES", "some");
    try {
        choose(Problem::parse("ci8 co8 4x4x4 k3"), {}, kHopper);
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "TCONV3D_CUDA_SIZES=some is neither any nor one");
    }
}

/// Both forms are asked, and where the layer's kernels have a tile only these may be taken: else each size would
/// compile.
TEST(AnySizeChoice, ALayersOtherFormRefuses) {
    const Problem problem = Problem::parse("n2 ci64 co32 33x34x35 k2 s2 bf16 ndhwc");
    const std::vector<Tiling> tilings = any_size_tilings(problem, kHopper, Engine::wgmma);
    ASSERT_FALSE(tilings.empty());
    for (const auto& [form, answer] :
         {std::pair(Form::streamed, answer_streamed(Question{problem, {}, kHopper, 1, true})),
          std::pair(Form::gathered, answer_gathered(Question{problem, {}, kHopper, 1, true}))}) {
        const bool has_one = std::any_of(tilings.begin(), tilings.end(),
                                         [form = form](const Tiling& tiling) { return tiling.config.form == form; });
        EXPECT_EQ(answer.accepts(), has_one) << answer.reason;
    }
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
