// The families whose threads work by themselves, cells and direct, on the host and without a GPU: exact on small
// integers, as cuda_emulated_streamed_test.cpp has the streamed form.
#include <gtest/gtest.h>

#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "emulated.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

template <typename Arguments>
bool is_exact(const Problem& problem, const KernelRequest& request, const std::string& type, const Arguments& arguments,
              int64_t blocks) {
    const testing::Emulator emulator(problem);
    emulator.write("prelude.hpp", request.prelude);
    emulator.write("launch.hpp", "#define KERNEL_FILE \"" + request.file + "\"\n#define KERNEL_ENTRY " + request.entry +
                                     "\n#define KERNEL_ARGUMENTS " + type + "\n" +
                                     testing::arguments_source(arguments) + testing::constant("kGrid", blocks));
    EXPECT_TRUE(emulator.compile("threads.cpp")) << problem.str();
    return emulator.execute();
}

// ---- cells ----

/// What many images of the problem would get: for few, a cell has few outputs.
CellTile tile_for(Problem problem) {
    problem.batch = 1 << 16;
    return choose_cell_tile(problem, 132);
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
    {"n1 ci8 co8 2x3x4 k2 s2 g8 f16 ndhwc", 4, "depthwise, channels last"},
};

void PrintTo(const CellCase& one, std::ostream* text) {
    *text << one.problem;
}

class CellsEmulated : public ::testing::TestWithParam<CellCase> {};

TEST_P(CellsEmulated, IsExactOnIntegers) {
    const Problem problem = Problem::parse(GetParam().problem);
    const CellTile tile = tile_for(problem);
    EXPECT_EQ(tile.cell[2], GetParam().width * problem.stride[2]) << GetParam().problem << ": " << tile.str();
    CellArguments args = cells_arguments(problem, tile);
    args.aligned = problem.dst()[2] % tile.cell[2] == 0 ? 1 : 0;
    EXPECT_TRUE(is_exact(problem, cells_request(problem, tile, {}, {true, false}), "CellArguments", args, args.items))
        << GetParam().problem << ": " << GetParam().why << "; " << tile.str();
}

INSTANTIATE_TEST_SUITE_P(All, CellsEmulated, ::testing::ValuesIn(kCellCases));

// ---- direct ----

/// check::Given of tests/emulator/definition.hpp.
std::string given_source(const Problem& problem) {
    const auto list = [](const Extents& values) {
        return "{" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " + std::to_string(values[2]) +
               "}, ";
    };
    std::string text = "constexpr check::Given kGiven = {";
    for (const int64_t value : {problem.batch, problem.groups, problem.src_channels_per_group(),
                                problem.dst_channels_per_group(), int64_t{problem.channels_last()}})
        text += std::to_string(value) + ", ";
    for (const Extents& values :
         {problem.src, problem.dst(), problem.kernel, problem.stride, problem.padding, problem.dilation})
        text += list(values);
    return text + "};\n";
}

/// One problem in a namespace of its own, with its kernel: is_exact() runs it.
std::string case_source(const Problem& problem, const std::string& number, bool with_bias) {
    const bool fwd = problem.direction == Direction::fwd, weight = problem.direction == Direction::bwd_weight;
    const KernelRequest request = direct_request(problem, {}, {fwd, false});
    const std::string entry = request.entry + "_" + number;
    return "namespace case_" + number + " {\n" + request.prelude + given_source(problem) +
           (weight ? testing::arguments_source(direct_bwd_weight_arguments(problem)) +
                         testing::constant("kWithBias", with_bias ? 1 : 0)
                   : testing::arguments_source(direct_correlation_arguments(problem)) +
                         testing::constant("kFwd", fwd ? 1 : 0)) +
           "#define " + request.entry + " " + entry + "\n#define KERNEL_ENTRY " + entry + "\n#include \"" +
           request.file + "\"\n#include \"direct_case/" + (weight ? "bwd_weight" : "correlation") + ".hpp\"\n#undef " +
           request.entry + "\n#undef KERNEL_ENTRY\n}\n";
}

/// All problems in one program: most of the time of one goes into headers.
void expect_exact(const std::vector<Problem>& problems) {
    const testing::Emulator emulator;
    for (const char* name : {"direct_correlation.cuh", "finish/finish.cuh"}) emulator.allow_again(name);
    std::string cases, calls;
    for (size_t i = 0; i < problems.size(); ++i) {
        const std::string number = std::to_string(i);
        cases += case_source(problems[i], number, i % 3 != 0);
        calls += "    if (!case_" + number + "::is_exact()) wrong += std::printf(\"" + problems[i].str() + "\\n\");\n";
    }
    emulator.write("cases.cpp", "#include \"direct.hpp\"\n" + cases + "int main() {\n    int wrong = 0;\n" + calls +
                                    "    return wrong == 0 ? 0 : 1;\n}\n");
    ASSERT_TRUE(emulator.compile("cases.cpp"));
    EXPECT_TRUE(emulator.execute()) << "the problems above are wrong";
}

class DirectEmulated : public ::testing::TestWithParam<Direction> {};

/// A quarter of the listed problems, each in one dtype and layout, others in others, and what the list does not have.
TEST_P(DirectEmulated, IsExactOnIntegers) {
    constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f64, DType::f16};
    constexpr int64_t kMostWeights = 600; // a CTA of bwd_weight sums few of them, and takes half a millisecond here
    std::vector<Problem> problems = {Problem::parse("n1 ci4 co12 3x2x4 k4 s6x4x2 p1 d4x6x3 g2"),
                                     Problem::parse("n0 ci3 co6 2x3x4 k3 s2 p1 g3"),
                                     Problem::parse("n1 ci2 co5 3x3x40 k3 s2 p1")};
    const std::vector<Problem> listed = testing::listed_problems();
    for (size_t i = 0; i < listed.size(); i += std::max<size_t>(testing::sampled_every() / 4, 1))
        if (GetParam() != Direction::bwd_weight || listed[i].weight_elements() <= kMostWeights)
            problems.push_back(listed[i]);
    for (size_t i = 0; i < problems.size(); ++i) {
        problems[i].dtype = kDTypes[i % 4];
        problems[i].layout = i / 4 % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
        problems[i].direction = GetParam();
    }
    expect_exact(problems);
}

INSTANTIATE_TEST_SUITE_P(All, DirectEmulated,
                         ::testing::Values(Direction::fwd, Direction::bwd_data, Direction::bwd_weight),
                         [](const auto& chosen) { return name(chosen.param); });

} // namespace
} // namespace tconv3d::cuda
