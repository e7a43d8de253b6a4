// The families whose threads work by themselves, cells and direct, on the host and without a GPU: exact on small
// integers, as cuda_emulated_streamed_test.cpp has the streamed form.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/cells/bwd_weight.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "emulated.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

template <typename Arguments>
bool is_exact(const Problem& problem, const KernelRequest& request, const std::string& type, const Arguments& arguments,
              int64_t blocks) {
    const testing::Emulator emulator;
    emulator.write("problem.hpp", testing::given_source(problem));
    emulator.write("prelude.hpp", request.prelude);
    emulator.write("launch.hpp", "#define KERNEL_FILE \"" + request.file + "\"\n#define KERNEL_ENTRY " + request.entry +
                                     "\n#define KERNEL_ARGUMENTS " + type + "\n" +
                                     testing::arguments_source(arguments) + testing::constant("kGrid", blocks));
    EXPECT_TRUE(emulator.compile("threads.cpp")) << problem.str();
    return emulator.execute();
}

// ---- cells in fwd, with the tile that each case must get ----

/// What many images of the problem would get: for few, a cell has few outputs.
CellTile tile_for(Problem problem) {
    problem.batch = 1 << 16;
    return choose_cell_tile(problem, 132);
}

/// CTAs that keep what they have staged for two items.
CellArguments cell_arguments(const Problem& problem, const CellTile& tile) {
    CellArguments args = cells_arguments(problem, tile, 132);
    args.range = 2;
    return args;
}

struct CellCase {
    const char* problem;
    int64_t width; ///< of a cell, in strides
    const char* why;
};

constexpr CellCase kCellCases[] = {
    {"n2 ci6 co6 3x4x8 k4 s2 p1 g6 bf16", 4, "depthwise: four voxels of 16 bits in one access"},
    {"n1 ci4 co4 2x3x8 k3 p1 g4 f16", 4, "the same at stride 1"},
    {"n1 ci4 co4 2x3x6 k4 s2 p1 g4 f32", 2, "two voxels of 32 bits"},
    {"n1 ci2 co2 2x3x6 k3 p1 g2 f64", 2, "and of 64"},
    {"n1 ci4 co4 2x3x8 k3 s2 p1 g4 bf16", 1, "rows of odd length"},
    {"n1 ci3 co5 3x3x7 k3x2x5 s2x1x3 p1x0x2 op1x0x1 d1x2x1 f32", 1, "no extent is a multiple of anything"},
    {"n2 ci40 co3 2x3x4 k3 s2 p1 op1 bf16", 4, "sums that are cut"},
    {"n1 ci6 co12 3x4x5 k3 s2 p1 g3 f32 ndhwc", 1, "groups, channels last"},
    {"n1 ci8 co8 2x3x4 k2 s2 g8 f16 ndhwc", 2, "depthwise, channels last: a pack of 8 bytes"},
    {"n2 ci190 co190 2x3x4 k3 s2 p1 op1 g190 bf16 ndhwc", 4, "more packs than a warp has lanes"},
    {"n1 ci3 co3 2x3x4 k3 s2 p1 g3 bf16 ndhwc", 2, "channels that are no packs"},
    {"n1 ci24 co24 2x3x4 k7 s2 p2 g24 f32 ndhwc", 1, "channels side by side, as many as have room for their weights"},
    {"n1 ci4 co4 2x3x4 k5 s4 g4 bf16", 1, "a stride of 64 outputs"},
    {"n1 ci4 co4 2x2x3 k5 s4 p1 op2 g4 f32 ndhwc", 1, "the same, channels last"},
};

void PrintTo(const CellCase& one, std::ostream* text) {
    *text << one.problem;
}

class CellsEmulated : public ::testing::TestWithParam<CellCase> {};

TEST_P(CellsEmulated, IsExactOnIntegers) {
    const Problem problem = Problem::parse(GetParam().problem);
    const CellTile tile = tile_for(problem);
    EXPECT_EQ(tile.cell[2], GetParam().width * problem.stride[2]) << GetParam().problem << ": " << tile.str();
    CellArguments args = cell_arguments(problem, tile);
    args.aligned = problem.dst()[2] % tile.cell[2] == 0 ? 1 : 0;
    EXPECT_TRUE(is_exact(problem, cells_request(problem, tile, {}, {true, false}), "CellArguments", args, args.items))
        << GetParam().problem << ": " << GetParam().why << "; " << tile.str();
}

INSTANTIATE_TEST_SUITE_P(All, CellsEmulated, ::testing::ValuesIn(kCellCases));

// ---- Many problems in one program ----

/// What a program needs to know of a problem and its kernel.
struct Case {
    KernelRequest request;
    std::string type;      ///< of the kernel's argument
    std::string constants; ///< the argument, and what else `file` asks for
    std::string file;      ///< of tests/emulator, which defines is_exact()
};

/// One problem in a namespace of its own, with its kernel: is_exact() runs it.
std::string case_source(const Problem& problem, const Case& one, const std::string& number) {
    const KernelRequest& request = one.request;
    const std::string entry = request.entry + "_" + number;
    return "#include \"again.hpp\"\nnamespace case_" + number + " {\n" + request.prelude +
           testing::given_source(problem) + one.constants + "#define " + request.entry + "(...) " + entry +
           "(__VA_ARGS__)\n#define KERNEL_ENTRY " + entry + "\n#define KERNEL_ARGUMENTS " + one.type + "\n#include \"" +
           request.file + "\"\n#include \"" + one.file + "\"\n#undef " + request.entry +
           "\n#undef KERNEL_ENTRY\n#undef KERNEL_ARGUMENTS\n}\n";
}

std::string flag(const char* name, bool value) {
    return testing::constant(name, value ? 1 : 0);
}

/// All problems in one program: most of the time of one goes into headers. make_case(problem, with_bias) says how.
template <typename MakeCase>
void expect_exact(const std::vector<Problem>& problems, const MakeCase& make_case) {
    const testing::Emulator emulator;
    emulator.allow_all_again({"direct_correlation.cuh", "cells_correlation.cuh", "cells", "load/cell_window.cuh",
                              "store/vectors.cuh", "finish/finish.cuh", "finish/thread_sums.cuh"});
    std::string cases, calls;
    for (size_t i = 0; i < problems.size(); ++i) {
        const std::string number = std::to_string(i);
        cases += case_source(problems[i], make_case(problems[i], i % 3 != 0), number);
        calls += "    if (!case_" + number + "::is_exact()) wrong += std::printf(\"" + problems[i].str() + "\\n\");\n";
    }
    emulator.write("cases.cpp", "#include \"direct.hpp\"\n" + cases + "int main() {\n    int wrong = 0;\n" + calls +
                                    "    return wrong == 0 ? 0 : 1;\n}\n");
    ASSERT_TRUE(emulator.compile("cases.cpp"));
    EXPECT_TRUE(emulator.execute()) << "the problems above are wrong";
}

/// Each problem in one dtype and layout, others in others.
std::vector<Problem> in_turns(std::vector<Problem> problems, Direction direction) {
    constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f64, DType::f16};
    for (size_t i = 0; i < problems.size(); ++i) {
        problems[i].dtype = kDTypes[i % 4];
        problems[i].layout = i / 4 % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
        problems[i].direction = direction;
    }
    return problems;
}

// ---- direct ----

Case direct_case(const Problem& problem, bool with_bias) {
    const bool fwd = problem.direction == Direction::fwd;
    const KernelRequest request = direct_request(problem, {}, {fwd, false});
    if (problem.direction == Direction::bwd_weight)
        return {request, "DirectBwdWeightArguments",
                testing::arguments_source(direct_bwd_weight_arguments(problem)) + flag("kWithBias", with_bias),
                "direct_case/bwd_weight.hpp"};
    return {request, "DirectCorrelationArguments",
            testing::arguments_source(direct_correlation_arguments(problem)) + flag("kIsFwd", fwd),
            "direct_case/correlation.hpp"};
}

class DirectEmulated : public ::testing::TestWithParam<Direction> {};

/// A quarter of the listed problems, and what the list does not have.
TEST_P(DirectEmulated, IsExactOnIntegers) {
    constexpr int64_t kMostWeights = 600; // a CTA of bwd_weight sums few of them, and takes half a millisecond here
    std::vector<Problem> problems = {Problem::parse("n1 ci4 co12 3x2x4 k4 s6x4x2 p1 d4x6x3 g2"),
                                     Problem::parse("n0 ci3 co6 2x3x4 k3 s2 p1 g3"),
                                     Problem::parse("n1 ci2 co5 3x3x40 k3 s2 p1")};
    const std::vector<Problem> listed = testing::listed_problems();
    for (size_t i = 0; i < listed.size(); i += std::max<size_t>(testing::sampled_every() / 4, 1))
        if (GetParam() != Direction::bwd_weight || listed[i].weight_elements() <= kMostWeights)
            problems.push_back(listed[i]);
    expect_exact(in_turns(problems, GetParam()), direct_case);
}

INSTANTIATE_TEST_SUITE_P(All, DirectEmulated,
                         ::testing::Values(Direction::fwd, Direction::bwd_data, Direction::bwd_weight),
                         [](const auto& chosen) { return name(chosen.param); });

// ---- cells in all directions ----

/// What many large images of the problem would get, with as many splits as there are slices, at most four.
CellWeightTile weight_tile_for(const Problem& problem) {
    Problem many = problem;
    many.batch = 1 << 16;
    many.src[1] *= 1 << 10;
    CellWeightTile tile = choose_cell_weight_tile(many, 132);
    tile.splits = std::clamp<int64_t>(problem.batch * problem.src[0], 1, 4);
    return tile;
}

Case cells_case(const Problem& problem, bool with_bias) {
    if (problem.direction == Direction::bwd_weight) {
        const CellWeightTile tile = weight_tile_for(problem);
        return {cells_bwd_weight_request(problem, tile), "tconv3d::cuda::CellBwdWeightArguments",
                testing::arguments_source(cells_bwd_weight_arguments(problem, tile)) + flag("kWithBias", with_bias) +
                    testing::arguments_source(cell_split_sums(problem, tile), "kAddArguments"),
                "cells_case/bwd_weight.hpp"};
    }
    const bool fwd = problem.direction == Direction::fwd;
    const CellTile tile = tile_for(problem);
    CellArguments args = cell_arguments(problem, tile);
    args.aligned = args.out_extents.w % tile.cell[2] == 0 ? 1 : 0;
    return {cells_request(problem, tile, {}, {fwd, false}), "CellArguments",
            testing::arguments_source(args) + flag("kIsFwd", fwd), "direct_case/correlation.hpp"};
}

bool takes(const Problem& problem) {
    return problem.direction == Direction::bwd_weight ? choose_cell_weight_tile(problem, 132).microseconds > 0
                                                      : choose_cell_tile(problem, 132).microseconds > 0;
}

class CellsEmulatedInAllDirections : public ::testing::TestWithParam<Direction> {};

/// A part of the listed problems.
TEST_P(CellsEmulatedInAllDirections, IsExactOnIntegers) {
    std::vector<Problem> problems;
    const std::vector<Problem> listed = testing::listed_problems();
    for (size_t i = 1; i < listed.size(); i += std::max<size_t>(testing::sampled_every() * 3 / 4, 1))
        problems.push_back(listed[i]);
    problems = in_turns(problems, GetParam());
    problems.erase(std::remove_if(problems.begin(), problems.end(), [](const auto& each) { return !takes(each); }),
                   problems.end());
    EXPECT_GT(problems.size(), 15U);
    expect_exact(problems, cells_case);
}

INSTANTIATE_TEST_SUITE_P(All, CellsEmulatedInAllDirections,
                         ::testing::Values(Direction::fwd, Direction::bwd_data, Direction::bwd_weight),
                         [](const auto& chosen) { return name(chosen.param); });

struct GradientCase {
    const char* problem;
    const char* data_cell;   ///< of bwd_data
    const char* weight_cell; ///< of bwd_weight
    const char* why;
};

constexpr GradientCase kGradientCases[] = {
    {"n2 ci6 co6 3x4x8 k4 s2 p1 g6", "1x4x2", "1x4x2", "depthwise: vectors of 16 bytes"},
    {"n2 ci6 co6 3x4x8 k4 s2 p1 g6 bf16", "1x2x4", "1x2x4", "wider cells"},
    {"n1 ci6 co6 3x4x4 k4 s2 p1 g6 f64", "1x4x1", "1x4x1", "and narrower ones"},
    {"n2 ci6 co6 3x4x5 k4 s2 p1 g6 ndhwc", "1x4x1", "1x4x1", "channels side by side"},
    {"n2 ci40 co40 2x3x4 k3 p1 g40 f16 ndhwc", "1x4x4", "1x2x4", "more of them than a warp has lanes"},
    {"n2 ci190 co190 2x3x4 k3 s2 p1 op1 g190 bf16 ndhwc", "1x2x4", "1x2x4", "more packs than a warp has lanes"},
    {"n1 ci5 co5 2x3x4 k3 s2 p1 g5 bf16 ndhwc", "1x2x4", "1x2x4", "channels that are no packs"},
    {"n1 ci4 co4 3x2x3 k3 s2 p1 g4 f64 ndhwc", "1x2x2", "1x2x1", "packs of 64 bits"},
    {"n1 ci24 co24 2x3x4 k7 s2 p2 g24 ndhwc", "1", "1", "as many side by side as have room for their weights"},
    {"n1 ci4 co4 5x6x8 k3 p1 g4", "1x2x4", "1x4x4", "stride 1"},
    {"n1 ci4 co4 2x5x7 k3 s2 p1 g4 bf16", "2x2x1", "1x4x1", "rows of odd length"},
    {"n1 ci20 co1 3x4x6 k4 s2 p1", "1x4x2", "1x2x2", "one channel of dst"},
    {"n2 ci9 co1 3x4x5 k4 s2 p1 ndhwc", "1x4x1", "1x4x1", "the same, channels last"},
    {"n2 ci3 co5 3x4x5 k3 s2 p1 op1", "1x4x1", "1x4x1", "blocks of channels that are not full"},
    {"n1 ci3 co3 3x4x5 k3 s2 p1 ndhwc f64", "1x4x1", "1x2x1", "three channels"},
    {"n1 ci6 co4 3x4x5 k2x3x4 s1x2x3 d2x1x3 g2", "1x2x1", "1x2x1", "groups, dilation"},
    {"n1 ci2 co3 3x3x6 k3 s3 op2x1x2", "1", "1x2x1", "stride 3, outputs that no tap reaches"},
    {"n1 ci2 co2 9x5x6 k1x1x3 s2x3x4 g2 ndhwc", "1", "1", "the same, with one tap along d"},
    {"n1 ci2 co2 40x3x4 k3 p1 g2", "2x1x4", "1x4x4", "chains of slices"},
    {"n1 ci2 co2 2x2x3 k1x1x3 s1x1x512 d1x1x268435456 p0x0x268435456 g2", "1", "1", "indexes of 64 bits"},
    {"n0 ci2 co2 3x3x4 k3 s2 p1 g2", "1x4x1", "1x4x1", "sums over nothing"},
};

class CellsEmulatedGradients : public ::testing::TestWithParam<Direction> {};

TEST_P(CellsEmulatedGradients, AreExactOnIntegers) {
    std::vector<Problem> problems;
    for (const GradientCase& one : kGradientCases) {
        Problem problem = Problem::parse(one.problem);
        problem.direction = GetParam();
        const bool weight = problem.direction == Direction::bwd_weight;
        EXPECT_EQ(str(weight ? weight_tile_for(problem).cell : tile_for(problem).cell),
                  weight ? one.weight_cell : one.data_cell)
            << problem.str() << ": " << one.why;
        problems.push_back(problem);
    }
    expect_exact(problems, cells_case);
}

INSTANTIATE_TEST_SUITE_P(All, CellsEmulatedGradients, ::testing::Values(Direction::bwd_data, Direction::bwd_weight),
                         [](const auto& chosen) { return name(chosen.param); });

} // namespace
} // namespace tconv3d::cuda
