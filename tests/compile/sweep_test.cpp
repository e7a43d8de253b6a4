// The swept form: NVRTC compiles what the baselines would get, without spills and with wgmmas side by side.
#include "cuda/sweep/sweep.hpp"
#include "expect_registers.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kHopper;

void expect_compiles(Problem problem) {
    problem.direction = Direction::bwd_weight;
    if (!answer_sweep({problem, {}, kHopper, 1}).accepts()) return;
    const SweepTile tile = best_sweep_tiles(problem, kHopper, 1).front();
    testing::expect_registers(sweep_request(problem, tile), SweepThreads::kConsumers + SweepThreads::kProducers,
                              problem.str() + ", " + tile.str());
}

class SweepCompile : public testing::WgmmaTest, public ::testing::WithParamInterface<size_t> {};

/// Each baseline in one mode, others in others; TCONV3D_TEST_EVERY=1 takes all.
TEST_P(SweepCompile, TakesTheBaselineWithoutSpills) {
    const std::vector<Problem> modes = testing::modes(testing::read_problems("baselines.txt").at(GetParam()));
    for (size_t i = 0; i < modes.size(); ++i)
        if (testing::sampled_every() == 1 || i % 4 == GetParam() % 4) expect_compiles(modes[i]);
}

INSTANTIATE_TEST_SUITE_P(Baselines, SweepCompile,
                         ::testing::Range<size_t>(0, testing::read_problems("baselines.txt").size()));

using SweepCompileSmall = testing::WgmmaTest;

/// Odd channels and extents, where nothing is aligned, and the widest products.
TEST_F(SweepCompileSmall, TakesOddAndLargeProblemsWithoutSpills) {
    for (const char* line : {"n8 ci37 co29 15x17x19 k3 s2 p1 tf32", "n8 ci37 co29 15x17x19 k3 bf16 ndhwc",
                             "n8 ci37 co29 15x17x19 k3 s3 tf32 ndhwc", "n2 ci512 co512 8x16x16 k1 f16",
                             "n2 ci64 co64 512x512x512 k4 s2 p1 bf16", "n2 ci512 co8 8x16x16 k2 s2 tf32",
                             "n2 ci64 co32 33x33x35 k3 p1 bf16"})
        expect_compiles(Problem::parse(line));
}

} // namespace
} // namespace tconv3d::cuda
