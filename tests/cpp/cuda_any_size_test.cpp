// Which kernels serve a layer whatever the size of its tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "cuda/select/family.hpp"
#include "cuda/sweep/sweep.hpp"
#include "cuda/sweep/tile.hpp"
#include "cuda/tensorcore/any_size.hpp"
#include "cuda/tensorcore/families.hpp"
#include "cuda/tensorcore/source.hpp"
#include "drawn_problem.hpp"
#include "made_up_devices.hpp"
#include "tconv3d/error.hpp"
#include "tensors.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::kHopper;
using testing::ScopedEnvironment;

struct ModeAndLayout {
    DType dtype;
    MathMode math;
    Layout layout;
};

/// A layer at extents that nobody chose.
Problem drawn(testing::Random& random, const Problem& layer, const ModeAndLayout& in) {
    Problem problem = testing::with(layer, in.dtype, in.math, in.layout);
    problem.batch = testing::draw(random, 1, 4);
    for (int64_t& extent : problem.src) extent = testing::draw(random, 4, 96);
    return problem;
}

/// The best estimate of the configs that are made for the size.
double specialised_microseconds(const Problem& problem) {
    double least = best_tilings(problem, kHopper, Engine::wgmma, Form::streamed, 1).front().config.schedule.clocks;
    for (const Tiling& gathered : best_tilings(problem, kHopper, Engine::wgmma, Form::gathered, 1))
        least = std::min(least, gathered.config.schedule.clocks);
    return Schedule{0, 0, 0, least}.microseconds();
}

class AnySize : public ::testing::TestWithParam<ModeAndLayout> {};

/// By the estimates. Kernels for one size lay out odd rows of NCDHW with all distances known, which is worth more than
/// in channels_last_3d, where TMA does it.
TEST_P(AnySize, FewKernelsServeALayerAndLoseLittle) {
    constexpr int kDraws = 30;
    double losses = 0;
    int counted = 0;
    for (const Problem& layer : testing::read_problems("layers.txt")) {
        testing::Random random(1);
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
        EXPECT_LE(kernels.size(), 6u) << layer.str();
        EXPECT_GE(kernels.size(), 1u) << layer.str();
    }
    EXPECT_GE(counted, 9 * kDraws) << "most sizes have a kernel";
    EXPECT_LE(std::exp(losses / counted), GetParam().layout == Layout::ndhwc ? 1.05 : 1.1)
        << "estimated time over that of kernels made for the size";
}

/// A kernel that adds to the sums of splits differs from one that has none.
TEST_P(AnySize, FewKernelsServeTheGradientOfALayersWeight) {
    const int draws = testing::sampled_every() > 1 ? 6 : 60;
    double losses = 0;
    int counted = 0;
    const std::vector<Problem> layers = testing::read_problems("layers.txt");
    for (size_t at = 0; at < layers.size(); at += testing::sampled_every() > 1 ? 4 : 1) {
        const Problem& layer = layers[at];
        testing::Random random(1);
        std::set<std::string> kernels;
        for (int i = 0; i < draws; ++i) {
            Problem problem = drawn(random, layer, GetParam());
            problem.direction = Direction::bwd_weight;
            const std::vector<SweepTile> tiles = any_size_sweep_tiles(problem, kHopper);
            ASSERT_FALSE(tiles.empty()) << problem.str();
            kernels.insert(sweep_request(problem, tiles.front()).prelude);
            losses += std::log(tiles.front().microseconds / best_sweep_tiles(problem, kHopper, 1).front().microseconds);
            ++counted;
        }
        EXPECT_LE(kernels.size(), 2 * 6u) << layer.str();
    }
    EXPECT_LE(std::exp(losses / counted), 1.2) << "estimated time over that of kernels made for the size";
}

INSTANTIATE_TEST_SUITE_P(All, AnySize,
                         ::testing::Values(ModeAndLayout{DType::f32, MathMode::tf32, Layout::ncdhw},
                                           ModeAndLayout{DType::bf16, MathMode::full, Layout::ncdhw},
                                           ModeAndLayout{DType::f32, MathMode::tf32, Layout::ndhwc},
                                           ModeAndLayout{DType::bf16, MathMode::full, Layout::ndhwc}));

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
                                         [asked = form](const Tiling& tiling) { return tiling.config.form == asked; });
        EXPECT_EQ(answer.accepts(), has_one) << answer.reason;
    }
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
