// The families whose threads work by themselves, cells and direct, on the host and without a GPU: exact on small
// integers, as cuda_emulated_test.cpp has the streamed kernel.
#include <gtest/gtest.h>

#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "emulated.hpp"

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

TEST(DirectEmulated, IsExactOnIntegers) {
    for (const char* text : {"n2 ci3 co5 3x3x4 k3x2x5 s2x1x3 p1x0x2 op1x0x1 d1x2x1 f32",
                             "n1 ci4 co12 3x2x4 k4 s6x4x2 p1 d4x6x3 g2 bf16 ndhwc", "n1 ci2 co2 2x2x3 k3 s2 p2 f64"}) {
        const Problem problem = Problem::parse(text);
        const DirectArgs args = direct_arguments(problem);
        EXPECT_TRUE(is_exact(problem, direct_request(problem, {}, {true, false}), "DirectArgs", args, 3)) << text;
    }
}

} // namespace
} // namespace tconv3d::cuda
