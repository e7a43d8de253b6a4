// The reduced form: NVRTC compiles what the baselines would get, for both kinds of tensor cores, without spills.
#include "cuda/reduction/reduction.hpp"
#include "cuda/splits/add_splits.hpp"
#include "made_up_devices.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;

void expect_compiles(const Problem& problem, const Device& device, const KernelRequest& request,
                     const std::string& what) {
    const std::string where = request.entry + " for " + problem.str() + ", sm_" + std::to_string(device.sm) + what;
    const Compiled compiled = compile_for(device.sm, request);
    EXPECT_EQ(compiled.spill_bytes, 0) << where;
    EXPECT_EQ(compiled.local_bytes, 0) << where << ": an array is not in registers";
    EXPECT_LE(compiled.shared_bytes + request.dynamic_shared_bytes, device.shared_memory_per_block) << where;
    EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << where << "\n" << compiled.log;
}

void expect_products_compile(Problem problem, const Device& device) {
    problem.direction = Direction::bwd_weight;
    const ReductionTile tile = best_reduction_tiles(problem, device, 1).front();
    expect_compiles(problem, device, reduction_request(problem, tile), ", " + tile.str());
}

class ReductionCompile : public testing::NvrtcTest, public ::testing::WithParamInterface<size_t> {};

/// Each baseline in one mode on either device, others in others; TCONV3D_TEST_EVERY=1 takes all.
TEST_P(ReductionCompile, TakesTheBaselineWithoutSpills) {
    const std::vector<Problem> modes = testing::modes(testing::read_problems("baselines.txt").at(GetParam()));
    for (size_t i = 0; i < modes.size(); ++i) {
        const bool every = testing::sampled_every() == 1;
        if (every || i == GetParam() % modes.size()) expect_products_compile(modes[i], kHopper);
        if (every || i == (GetParam() + 5) % modes.size()) expect_products_compile(modes[i], kAmpere);
    }
}

INSTANTIATE_TEST_SUITE_P(Baselines, ReductionCompile,
                         ::testing::Range<size_t>(0, testing::read_problems("baselines.txt").size()));

using ReductionCompileSmall = testing::NvrtcTest;

/// Odd channels and extents, where nothing is aligned; strides and dilations that are never taken; many groups.
TEST_F(ReductionCompileSmall, TakesOddAndLargeProblemsWithoutSpills) {
    for (const char* line : {"n8 ci37 co29 15x17x19 k3 s2 p1 tf32", "n8 ci37 co29 15x17x19 k3 bf16 ndhwc",
                             "n8 ci100 co100 15x17x19 k3 f32", "n2 ci512 co512 8x16x16 k3 s2 p1 g512 f16",
                             "n2 ci64 co64 512x512x512 k4 s2 p1 bf16", "ci8 co8 1x64x64 k1x3x3 s2000000000x1x1 bf16"})
        expect_products_compile(Problem::parse(line), kHopper);
}

TEST_F(ReductionCompileSmall, TakesTheSecondPassAndTheBias) {
    for (const char* line : {"n2 ci6 co9 5x6x7 k3 g3 f32", "n2 ci70000 co70000 3x3x3 k3 bf16 ndhwc",
                             "n2 ci64 co64 512x512x512 k4 s2 p1 f16"}) {
        Problem problem = Problem::parse(line);
        problem.direction = Direction::bwd_weight;
        expect_compiles(problem, kAmpere, reduction_bias_request(problem), "");
        expect_compiles(problem, kHopper, add_splits_request(problem), "");
    }
}

} // namespace
} // namespace tconv3d::cuda
