// The swept form on the host, without a GPU: exact on small integers, with the second pass.
#include <gtest/gtest.h>

#include "cuda/reduction/reduction.hpp"
#include "cuda/sweep/sweep.hpp"
#include "emulated_bwd_weight.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

struct SweepCase {
    const char* problem;
    SweepTile tile;
    const char* why;
};

constexpr bool kMovesDst = false, kMovesSrc = true, kLoads = false, kCopies = true;

const SweepCase kCases[] = {
    {"n2 ci8 co8 3x4x8 k3 p1 tf32", {kMovesDst, 8, 8, {3, 3, 3}, 2, 2, kCopies}, "all taps, two tiles of a warpgroup"},
    {"n2 ci8 co8 3x4x8 k3 p1 tf32 ndhwc", {kMovesDst, 8, 8, {3, 3, 3}, 2, 2, kCopies}, "channels last"},
    {"n1 ci16 co8 3x4x16 k3 p1 bf16", {kMovesDst, 16, 8, {3, 3, 3}, 2, 2, kLoads}, "16 bits: rows in two copies"},
    {"n1 ci16 co8 3x4x16 k3 p1 f16 ndhwc", {kMovesDst, 16, 8, {3, 3, 3}, 2, 2, kLoads}, "the same, channels last"},
    {"n1 ci8 co8 3x4x16 k3 p1 tf32", {kMovesSrc, 8, 8, {3, 3, 3}, 2, 2, kCopies}, "src is moved"},
    {"n1 ci8 co16 3x4x15 k3x2x4 p2x0x1 bf16 ndhwc", {kMovesSrc, 16, 8, {3, 2, 4}, 2, 2, kLoads}, "the same, odd rows"},
    {"n1 ci8 co8 4x4x6 k3 s2 p1 op1 bf16",
     {kMovesDst, 8, 8, {3, 3, 3}, 2, 2, kLoads},
     "stride 2: phases along W apart"},
    {"n2 ci8 co4 3x4x12 k3 s2 p1 op1 bf16",
     {kMovesDst, 8, 4, {3, 3, 3}, 2, 2, kLoads},
     "the same, all pieces begin at the same element of 16 bytes"},
    {"n2 ci8 co4 3x4x8 k4 s2 p1 f16",
     {kMovesDst, 8, 4, {4, 4, 4}, 2, 2, kLoads},
     "the same with copies of both phases"},
    {"n1 ci8 co8 4x4x6 k4 s2 p1 tf32 ndhwc",
     {kMovesDst, 8, 8, {4, 4, 4}, 2, 2, kCopies},
     "stride 2, two fresh slices of five"},
    {"n1 ci8 co8 3x4x5 k2 s2 f16",
     {kMovesDst, 8, 8, {2, 2, 2}, 2, 2, kLoads, 3},
     "slices that share nothing; three stages"},
    {"n1 ci8 co8 5x3x5 k1 s3 op2 tf32",
     {kMovesDst, 8, 8, {1, 1, 1}, 2, 2, kCopies},
     "a stride that leaves voxels unmet"},
    {"n1 ci8 co8 3x4x5 k3x2x4 s1x2x3 p2x0x4 op0x1x2 d2x3x2 tf32",
     {kMovesDst, 8, 8, {3, 2, 4}, 2, 2, kCopies},
     "dilation"},
    {"n1 ci8 co8 5x4x5 k3 s2 d2 p2 bf16", {kMovesDst, 8, 8, {3, 3, 3}, 4, 2, kLoads}, "only every second slice is met"},
    {"n1 ci8 co8 6x4x4 k2x1x1 s3x1x1 d2x1x1 tf32",
     {kMovesDst, 8, 8, {2, 1, 1}, 4, 1, kCopies},
     "three fresh slices; rows in pairs"},
    {"n2 ci8 co4 3x5x4 k3 p1 tf32",
     {kMovesDst, 8, 4, {3, 3, 3}, 4, 1, kCopies},
     "one tile, rows in pairs, boxes that end outside"},
    {"n2 ci24 co20 2x3x8 k3 p1 bf16",
     {kMovesDst, 16, 12, {1, 3, 3}, 2, 2, kLoads},
     "channels in several tiles, the last not full"},
    {"n2 ci24 co20 2x3x8 k3 p1 tf32 ndhwc",
     {kMovesDst, 16, 12, {2, 2, 3}, 2, 2, kCopies},
     "the same, blocks of taps not full"},
    {"n1 ci5 co3 2x3x5 k3 p1 bf16 ndhwc", {kMovesDst, 8, 3, {3, 3, 3}, 4, 2, kLoads}, "odd channels"},
    {"n2 ci6 co9 2x3x5 k2 s2 g3 f16", {kMovesDst, 8, 3, {2, 2, 2}, 4, 1, kLoads}, "groups"},
    {"n2 ci6 co9 2x3x5 k2 s2 g3 tf32 ndhwc", {kMovesDst, 8, 3, {2, 2, 2}, 4, 1, kCopies}, "groups, channels last"},
    {"n3 ci8 co9 3x4x8 k2 tf32", {kMovesDst, 8, 9, {2, 2, 2}, 4, 2, kCopies, 2, 5}, "splits that begin within a tile"},
    {"n3 ci8 co9 3x4x8 k2 bf16", {kMovesSrc, 16, 8, {2, 2, 2}, 4, 2, kLoads, 3, 7}, "the same, src moved"},
    {"n2 ci8 co8 2x4x40 k3 p1 tf32",
     {kMovesDst, 8, 8, {3, 3, 3}, 2, 6, kCopies},
     "three k steps in a row; the last tile not full"},
    {"n2 ci8 co32 2x4x8 k3 p1 tf32", {kMovesDst, 8, 32, {3, 3, 3}, 2, 2, kCopies}, "seven tiles of a warpgroup"},
    {"n2 ci8 co8 3x4x7 k3 s2 p1 tf32", {kMovesDst, 8, 8, {3, 3, 3}, 4, 2, kLoads}, "fp32 that is rounded once"},
    {"n2 ci8 co5 3x4x7 k3 s2 p1 tf32 ndhwc", {kMovesDst, 8, 5, {3, 3, 3}, 4, 2, kLoads}, "the same, channels last"},
    {"n2 ci8 co3 3x5x7 k3x3x2 s2x2x3 p1 bf16", {kMovesDst, 8, 3, {3, 3, 2}, 4, 2, kLoads}, "odd volumes, stride 3"},
    {"n2 ci8 co3 2x3x7 k1x2x5 s1x1x4 p0x0x2 f16",
     {kMovesDst, 8, 3, {1, 2, 5}, 4, 2, kLoads},
     "stride 4: pieces of twelve elements"},
    {"n2 ci8 co3 2x3x7 k1x2x6 s1x1x5 p0x0x1 op0x0x2 bf16",
     {kMovesDst, 8, 3, {1, 2, 6}, 4, 2, kLoads},
     "stride 5: words one by one"},
    {"n2 ci24 co5 2x4x7 k2 s2 bf16",
     {kMovesDst, 24, 3, {2, 2, 2}, 4, 2, kLoads},
     "stride 2 without copies; channels in tiles that are not full"},
    {"n1 ci192 co8 2x4x16 k1 bf16", {kMovesDst, 192, 4, {1, 1, 1}, 4, 2, kLoads}, "groups of two products"},
    {"n1 ci8 co16 2x3x24 k3 p1 tf32",
     {kMovesDst, 8, 16, {3, 3, 3}, 3, 6, kLoads},
     "four tiles and three k steps: groups that begin within a step"},
    {"n0 ci3 co6 2x3x4 k3 s2 p1 g3 bf16", {kMovesDst, 8, 2, {3, 3, 3}, 4, 2, kLoads}, "no images: gradients of zero"},
};

/// The prelude for the host: its one statement for the GPU's assembler is the emulator's product.
KernelRequest on_host(KernelRequest request, const Problem& problem) {
    const std::string word = problem.dtype == DType::f32    ? "Tf32"
                             : problem.dtype == DType::bf16 ? "Bf16Pair"
                                                            : "F16Pair";
    const size_t begin = request.prelude.find("asm volatile("), end = request.prelude.find(";\n}\n", begin);
    request.prelude.replace(begin, end - begin,
                            "ptx::wgmma_rows<ptx::" + word +
                                ">(sums, kTileFixedChannels, rows, columns, kFixedChunks)");
    return request;
}

std::string case_source(const Problem& problem, const SweepTile& tile, size_t number) {
    const std::string arguments = testing::arguments_source(sweep_arguments(problem, tile), "kProductsArguments") +
                                  "using Arguments = SweepArguments;\n"
                                  "void place(Arguments& args, const void* src, const void* grad_dst) {\n"
                                  "    args.fixed = products::kMovesSrc ? grad_dst : src;\n"
                                  "    args.moved = products::kMovesSrc ? src : grad_dst;\n}\n";
    return "#include \"again.hpp\"\n" +
           testing::case_source(problem,
                                {on_host(sweep_request(problem, tile), problem), arguments,
                                 sweep_items(problem, tile) * tile.splits, tile.splits, false, false},
                                testing::kHopper, number);
}

using ToRun = testing::Tiled<SweepTile>;

void expect_exact(const std::vector<ToRun>& cases) {
    const testing::Emulator emulator;
    emulator.allow_all_again({"sweep", "reduction/grad_weight.cuh", "reduction/tap_blocks.cuh"});
    testing::expect_exact(emulator, cases, case_source);
}

TEST(SweepEmulated, IsExactOnIntegersForEachTrait) {
    std::vector<ToRun> cases;
    for (const SweepCase& one : kCases) {
        const Problem problem = testing::parse_bwd_weight(one.problem);
        ASSERT_LE(sweep_shared_bytes(problem, one.tile), testing::kHopper.shared_memory_per_block) << one.problem;
        cases.push_back({problem, one.tile});
    }
    expect_exact(cases);
}

/// The best tiles that a small device would get; none where the family does not take the problem.
std::vector<SweepTile> small_tiles(const Problem& problem) {
    Device device = testing::kHopper;
    device.multiprocessors = 3;
    const bool accepts = answer_sweep({problem, {}, device, 1}).accepts();
    return accepts ? best_sweep_tiles(problem, device, 30) : std::vector<SweepTile>();
}

TEST(SweepEmulated, IsExactOnIntegersForListedProblems) {
    const auto work_of = [](const Problem& problem, const SweepTile& tile) {
        return sweep_items(problem, tile) * sweep_slices(problem, tile) * sweep_plane(problem, tile).steps() *
               tile.warpgroup_tiles() * tile.fixed_channels * 128;
    };
    expect_exact(testing::some_listed_problems<SweepTile>(small_tiles, work_of));
}

/// Tiles of a layer are larger than small tensors, in one dimension or in both.
TEST(SweepEmulated, IsExactOnIntegersWithTilesForAnySize) {
    std::vector<ToRun> cases;
    for (const char* line : {"n1 ci12 co8 3x5x7 k3 p1 tf32", "n2 ci8 co16 2x3x9 k3x2x3 s2 p1 bf16",
                             "n1 ci16 co8 2x3x16 k2 s2 f16", "n2 ci16 co24 3x4x5 k3 p1 bf16 ndhwc"}) {
        const Problem problem = testing::parse_bwd_weight(line);
        const std::vector<SweepTile> tiles = any_size_sweep_tiles(problem, testing::kHopper);
        ASSERT_FALSE(tiles.empty()) << line;
        cases.push_back({problem, tiles.front()});
        cases.push_back({problem, tiles.back()});
    }
    expect_exact(cases);
}

TEST(SweepEmulated, IsExactOnIntegersForDrawnProblems) {
    testing::for_drawn_problems<SweepTile>(small_tiles, expect_exact);
}

} // namespace
} // namespace tconv3d::cuda
