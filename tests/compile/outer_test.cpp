// The outer form: NVRTC compiles what the baselines would get, without spills and with wgmmas side by side.
#include "cuda/outer/outer.hpp"
#include "expect_registers.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kHopper;

/// Whether the family takes the problem.
bool expect_compiles(Problem problem, Layout layout, size_t tiles) {
    problem.direction = Direction::bwd_weight;
    problem.dtype = DType::bf16;
    problem.math = MathMode::full;
    problem.layout = layout;
    if (!answer_outer({problem, {}, kHopper, 1}).accepts()) return false;
    for (const OuterTile& tile : best_outer_tiles(problem, kHopper, tiles))
        testing::expect_registers(outer_request(problem, tile), OuterThreads::kConsumers + OuterThreads::kProducers,
                                  problem.str() + ", " + tile.str());
    return true;
}

using OuterCompile = testing::WgmmaTest;

/// Some of the baselines in each layout; TCONV3D_TEST_EVERY=1 takes all, with several tiles.
TEST_F(OuterCompile, TakesTheBaselinesWithoutSpills) {
    const bool all = testing::sampled_every() == 1;
    for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
        size_t taken = 0;
        for (const Problem& problem : testing::read_problems("baselines.txt"))
            if (all || taken < 3) taken += expect_compiles(problem, layout, all ? 8 : 1) ? 1 : 0;
        EXPECT_GE(taken, 3U);
    }
}

/// Sums without splits lie far apart, which takes many addresses; and the widest products.
TEST_F(OuterCompile, TakesLargeWeightsWithoutSpills) {
    for (const char* line :
         {"n1 ci768 co384 3x3x3 k2 s2", "n8 ci1024 co512 2x2x2 k4 s2 p1", "n1 ci512 co256 7x4x7 k3 s2 p1 op1"})
        EXPECT_TRUE(expect_compiles(Problem::parse(line), Layout::ndhwc, 1)) << line;
}

} // namespace
} // namespace tconv3d::cuda
