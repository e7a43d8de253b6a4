// The reduced form on the host, without a GPU: exact on small integers, with the second pass and the bias's gradient.
#include <gtest/gtest.h>

#include "cuda/reduction/reduction.hpp"
#include "emulated_bwd_weight.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

struct ReductionCase {
    const char* problem;
    ReductionTile tile;
    const char* why;
};

const ReductionCase kCases[] = {
    {"n2 ci16 co8 3x4x8 k3 p1 tf32", {16, 8, {3, 3, 3}, {1, 2, 8}, 1}, "all taps in one block"},
    {"n2 ci16 co8 3x4x8 k3 p1 tf32 ndhwc", {16, 8, {3, 3, 3}, {1, 2, 8}, 1}, "channels last"},
    {"n1 ci16 co16 2x3x8 k3 p1 bf16", {16, 16, {3, 3, 3}, {2, 1, 8}, 1}, "16 bits, columns in pairs"},
    {"n1 ci16 co16 2x3x8 k3 p1 f16 ndhwc", {16, 16, {3, 3, 3}, {2, 1, 8}, 1}, "the same, channels last"},
    {"n1 ci16 co8 3x4x6 k3 s2 p1 op1 bf16", {16, 8, {3, 3, 3}, {2, 2, 6}, 1}, "stride 2: phases along W apart"},
    {"n1 ci16 co8 3x4x6 k3 s2 p1 op1 tf32 ndhwc", {16, 8, {3, 3, 3}, {2, 2, 3}, 1}, "stride 2, channels last"},
    {"n1 ci16 co8 3x4x5 k3x2x4 s1x2x3 p2x0x4 op0x1x2 d2x3x2 tf32", {16, 8, {3, 2, 4}, {2, 2, 5}, 1}, "dilation"},
    {"n1 ci16 co8 4x3x5 k1 s3 op2 bf16", {16, 8, {1, 1, 1}, {2, 2, 5}, 1}, "a stride that leaves voxels unmet"},
    {"n2 ci16 co8 3x3x3 k3 s3 p2 tf32", {16, 8, {3, 3, 3}, {2, 2, 1}, 1}, "boxes of one column"},
    {"n1 ci16 co8 5x5x9 k2 p1 f16", {16, 8, {2, 2, 2}, {2, 2, 4}, 1}, "boxes that end outside of src"},
    {"n1 ci16 co8 3x3x4 k3 p2 bf16", {16, 8, {3, 3, 3}, {2, 2, 3}, 1}, "padding beyond the box; a step not full"},
    {"n3 ci16 co8 3x3x7 k3 p1 bf16", {16, 8, {1, 3, 3}, {1, 3, 7}, 1}, "rows of odd length; blocks of taps along D"},
    {"n3 ci16 co8 3x3x7 k3 p1 tf32", {16, 8, {1, 1, 3}, {3, 1, 7}, 1}, "the same in fp32; blocks along H too"},
    {"n1 ci16 co8 3x4x5 k3x2x5 p1 tf32", {16, 8, {2, 1, 3}, {3, 4, 5}, 1}, "blocks of taps that are not full"},
    {"n2 ci24 co8 3x5x5 k3 s2 p1 bf16 ndhwc", {16, 8, {3, 3, 3}, {2, 2, 5}, 1}, "channels that are copied whole"},
    {"n2 ci16 co48 2x3x5 k2 p1 g2 f16 ndhwc", {16, 16, {2, 2, 2}, {2, 3, 5}, 1}, "the same with groups"},
    {"n2 ci16 co8 3x2x16 k2 s2 bf16", {16, 8, {2, 2, 2}, {1, 2, 8}, 1}, "rows and boxes of whole pieces"},
    {"n1 ci40 co20 2x3x4 k2 bf16", {16, 8, {2, 2, 2}, {2, 3, 4}, 1}, "channels in several tiles, the last not full"},
    {"n1 ci40 co20 2x3x4 k2 tf32 ndhwc", {16, 8, {2, 2, 2}, {2, 3, 4}, 1}, "the same, channels last"},
    {"n1 ci5 co3 2x3x5 k3 p1 bf16 ndhwc", {16, 8, {3, 3, 3}, {2, 3, 5}, 1}, "odd channels, channels last"},
    {"n1 ci5 co3 2x3x5 k3 p1 tf32 ndhwc", {16, 8, {3, 3, 3}, {2, 3, 5}, 1}, "the same in fp32"},
    {"n2 ci6 co9 2x3x5 k2 s2 g3 f16", {16, 8, {2, 2, 2}, {2, 3, 5}, 1}, "groups"},
    {"n2 ci6 co9 2x3x5 k2 s2 g3 bf16 ndhwc", {16, 8, {2, 2, 2}, {2, 3, 5}, 1}, "groups, channels last"},
    {"n2 ci4 co4 2x3x4 k3 p1 g4 tf32", {16, 8, {3, 3, 3}, {2, 3, 4}, 1}, "depthwise"},
    {"n3 ci16 co9 3x4x8 k2 tf32", {16, 16, {2, 2, 2}, {1, 2, 8}, 1, 1, 5}, "splits; an odd number of channels"},
    {"n2 ci16 co8 3x4x8 k3 p1 bf16 ndhwc", {16, 8, {1, 3, 3}, {1, 2, 8}, 1, 1, 12}, "as many splits as tiles"},
    {"n1 ci32 co24 2x3x8 k2 bf16", {32, 24, {2, 2, 2}, {2, 3, 8}, 2}, "warps that divide rows"},
    {"n1 ci64 co8 2x3x8 k3 tf32", {64, 8, {1, 3, 3}, {2, 3, 8}, 4, 1, 1}, "four of them; columns that no warp needs"},
    {"n1 ci48 co8 2x3x8 k3 f16", {48, 8, {3, 3, 3}, {2, 3, 8}, 1, 1, 1}, "three tiles of rows in a warp"},
    {"n2 ci16 co8 3x4x8 k3 p1 f32", {16, 8, {3, 3, 3}, {3, 4, 8}, 1}, "fp32 in full: chains of k steps"},
    {"n2 ci20 co9 3x4x5 k3 s2 p1 f32 ndhwc", {32, 16, {1, 3, 3}, {1, 2, 5}, 1, 1, 2}, "fp32 in full, channels last"},
    {"n0 ci3 co6 2x3x4 k3 s2 p1 g3 bf16", {16, 8, {3, 3, 3}, {2, 3, 4}, 1}, "no images: gradients of zero"},
    {"n1 ci8 co8 1x1x1 k2x1x1 s2000000000x7x1 d1x900000000x1 bf16",
     {16, 8, {2, 1, 1}, {1, 1, 1}, 1},
     "a stride and a dilation that nothing takes"},
};

std::string case_source(const Problem& problem, const ReductionTile& tile, size_t number) {
    const std::string arguments = testing::arguments_source(reduction_arguments(problem, tile), "kProductsArguments") +
                                  "using Arguments = ReductionArguments;\n"
                                  "void place(Arguments& args, const void* src, const void* grad_dst) {\n"
                                  "    args.src = src;\n    args.grad_dst = grad_dst;\n}\n";
    return "#include \"again.hpp\"\n" +
           testing::case_source(problem,
                                {reduction_request(problem, tile), arguments, split_items(problem, tile) * tile.splits,
                                 tile.splits, number % 4 != 3, number % 2 == 1},
                                testing::kAmpere, number);
}

using ToRun = testing::Tiled<ReductionTile>;

void expect_exact(const std::vector<ToRun>& cases) {
    const testing::Emulator emulator;
    emulator.allow_all_again({"reduction"});
    testing::expect_exact(emulator, cases, case_source);
}

TEST(ReductionEmulated, IsExactOnIntegersForEachTrait) {
    std::vector<ToRun> cases;
    for (const ReductionCase& one : kCases) {
        const Problem problem = testing::parse_bwd_weight(one.problem);
        ASSERT_LE(reduction_shared_bytes(problem, one.tile), testing::kAmpere.shared_memory_per_block) << one.problem;
        cases.push_back({problem, one.tile});
    }
    expect_exact(cases);
}

/// The best tiles that a small device would get; none where the family does not take the problem.
std::vector<ReductionTile> small_tiles(const Problem& problem) {
    Device device = testing::kHopper;
    device.multiprocessors = 3;
    const bool accepts = answer_reduce({problem, {}, device, 1}).accepts();
    return accepts ? best_reduction_tiles(problem, device, 30) : std::vector<ReductionTile>();
}

TEST(ReductionEmulated, IsExactOnIntegersForListedProblems) {
    const auto work_of = [](const Problem& problem, const ReductionTile& tile) {
        const int64_t columns = tile.warp_columns() * tile.column_warps() * tile.src_channels / 16;
        return split_items(problem, tile) * all_tiles(problem, tile) * columns * box_steps(problem, tile) * 128;
    };
    expect_exact(testing::some_listed_problems<ReductionTile>(small_tiles, work_of));
}

TEST(ReductionEmulated, IsExactOnIntegersForDrawnProblems) {
    testing::for_drawn_problems<ReductionTile>(small_tiles, expect_exact);
}

} // namespace
} // namespace tconv3d::cuda
