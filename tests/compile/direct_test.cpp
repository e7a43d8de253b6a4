// The families direct and cells: NVRTC compiles what selection can choose, without spills.
#include <ctime>

#include "cuda/cells/bwd_weight.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/splits/add_splits.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::listed_problems;
using testing::NvrtcTest;
using testing::sampled_every;

constexpr int kMultiprocessors = 132;

/// Large strides, many voxels, many channels and many groups.
constexpr const char* kLarge[] = {"ci2 co2 3x3x3 k2 s2000000000 d1000000000", "n2 ci64 co64 512x512x512 k4 s2 p1",
                                  "ci70000 co70000 3x3x3 k3", "n2 ci512 co512 8x16x16 k3 s2 p1 g512"};

class DirectCompile : public NvrtcTest {
protected:
    void expect_compiles(int sm, const Problem& problem, const KernelRequest& request) {
        const Compiled compiled = compile_for(sm, request);
        const std::string what = request.entry + " for " + problem.str() + ", sm_" + std::to_string(sm);
        EXPECT_EQ(compiled.spill_bytes, 0) << what;
        EXPECT_EQ(compiled.local_bytes, 0) << what;
        EXPECT_LE(compiled.shared_bytes, 48 * 1024) << what;
        EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << what << "\n" << compiled.log;
    }
};

TEST_F(DirectCompile, TakesTheProblemFileWithoutSpills) {
    const Epilogue epilogue = Epilogue::parse("clamp(min=-1) channel_mul residual_add");
    constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f64, DType::f16};
    const std::vector<Problem> problems = listed_problems();
    size_t turn = 0;
    for (size_t i = 0; i < problems.size(); i += sampled_every(), ++turn) {
        Problem problem = problems[i];
        problem.dtype = kDTypes[turn % 4];
        problem.layout = turn / 4 % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
        const int sm = turn % 2 == 0 ? 80 : 90;
        const bool present = turn % 3 == 0;
        const CellTile tile = choose_cell_tile(problem, kMultiprocessors);
        if (tile.microseconds > 0)
            expect_compiles(sm, problem, cells_request(problem, tile, epilogue, {present, !present}));
        else
            expect_compiles(sm, problem, direct_request(problem, epilogue, {present, !present}));
        if (turn % 4 == 0) expect_compiles(sm, problem, direct_request(problem, epilogue, {!present, present}));
    }
}

TEST_F(DirectCompile, TakesWideAndLargeProblemsWithoutSpills) {
    for (const char* line :
         {"n8 ci48 co24 96x96x96 k3", "ci128 co128 8x8x8 k3 s2 p1 ndhwc", "ci32 co64 64x64x64 k5 f64",
          "n2 ci64 co64 32x32x32 k4 s2 p1 g64 bf16", "ci1 co1 1024x1024x1024 k2"}) {
        const Problem problem = Problem::parse(line);
        expect_compiles(90, problem,
                        cells_request(problem, choose_cell_tile(problem, kMultiprocessors), {}, {true, false}));
    }
    for (const char* line : kLarge)
        expect_compiles(80, Problem::parse(line), direct_request(Problem::parse(line), {}, {true, false}));
}

class CellsCompileGradients : public DirectCompile, public ::testing::WithParamInterface<Direction> {
protected:
    void expect_gradient_compiles(int sm, const Problem& problem) {
        if (problem.direction == Direction::bwd_data) {
            const CellTile tile = choose_cell_tile(problem, kMultiprocessors);
            if (tile.microseconds <= 0) return;
            expect_compiles(sm, problem, cells_request(problem, tile, {}, {false, false}));
        } else {
            const CellWeightTile tile = choose_cell_weight_tile(problem, kMultiprocessors);
            if (tile.microseconds <= 0) return;
            expect_compiles(sm, problem, cells_bwd_weight_request(problem, tile));
        }
        ++compiled_;
    }

    int compiled_ = 0;
};

/// Each problem in one dtype, layout and architecture, others in others.
TEST_P(CellsCompileGradients, TakesTheProblemFileAndUsualProblemsWithoutSpills) {
    constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f64, DType::f16};
    std::vector<Problem> problems;
    for (const char* line : {"n2 ci64 co64 32x32x32 k7 s2 p3 op1 g64", "n2 ci64 co64 32x32x32 k5 s2 p2 op1 g64",
                             "n16 ci64 co1 32x32x32 k4 s2 p1", "n128 ci3 co16 16x32x32 k3 s2 p1",
                             "n4 ci32 co32 32x64x128 k3 s2 p1 g4", "ci1 co1 1024x1024x1024 k2"})
        problems.push_back(Problem::parse(line));
    const std::vector<Problem> listed = listed_problems();
    for (size_t i = 1; i < listed.size(); i += sampled_every()) problems.push_back(listed[i]);
    for (size_t i = 0; i < problems.size(); ++i) {
        problems[i].dtype = kDTypes[i % 4];
        problems[i].layout = i / 2 % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
        problems[i].direction = GetParam();
        expect_gradient_compiles(i % 3 == 0 ? 80 : 90, problems[i]);
    }
    EXPECT_GT(compiled_, 15);
}

/// What a user waits for at the first call.
TEST_P(CellsCompileGradients, TakesDepthwiseProblemsInLittleTime) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
        for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
            Problem problem = Problem::parse("n2 ci64 co64 32x32x32 k4 s2 p1 g64");
            problem.dtype = dtype;
            problem.layout = layout;
            problem.direction = GetParam();
            const std::clock_t begin = std::clock(); // of this process alone: others run beside it
            expect_gradient_compiles(90, problem);
            EXPECT_LT(std::clock() - begin, 3 * CLOCKS_PER_SEC / 2) << problem.str();
        }
    EXPECT_EQ(compiled_, 8);
    if (GetParam() == Direction::bwd_weight)
        for (const char* line : {"ci1 co1 1x1x1 k1 f32", "ci1 co1 1x1x1 k1 f64", "ci1 co1 1x1x1 k1 bf16"})
            expect_compiles(80, Problem::parse(line), add_splits_request(Problem::parse(line)));
}

INSTANTIATE_TEST_SUITE_P(All, CellsCompileGradients, ::testing::Values(Direction::bwd_data, Direction::bwd_weight),
                         [](const auto& chosen) { return name(chosen.param); });

class DirectCompileGradients : public DirectCompile, public ::testing::WithParamInterface<Direction> {};

/// Each problem in one dtype, layout and architecture, others in others.
TEST_P(DirectCompileGradients, TakesTheProblemFileAndLargeProblemsWithoutSpills) {
    constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f64, DType::f16};
    std::vector<Problem> problems;
    for (const char* line : kLarge) problems.push_back(Problem::parse(line));
    const std::vector<Problem> listed = listed_problems();
    for (size_t i = 1; i < listed.size(); i += 2 * sampled_every()) problems.push_back(listed[i]);
    for (size_t i = 0; i < problems.size(); ++i) {
        problems[i].dtype = kDTypes[i % 4];
        problems[i].layout = i / 2 % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
        problems[i].direction = GetParam();
        expect_compiles(i % 3 == 0 ? 80 : 90, problems[i], direct_request(problems[i], {}, {false, false}));
    }
}

INSTANTIATE_TEST_SUITE_P(All, DirectCompileGradients, ::testing::Values(Direction::bwd_data, Direction::bwd_weight),
                         [](const auto& chosen) { return name(chosen.param); });

} // namespace
} // namespace tconv3d::cuda
