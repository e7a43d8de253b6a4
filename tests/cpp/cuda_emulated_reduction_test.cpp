// The reduced form on the host, without a GPU: exact on small integers, with the second pass and the bias's gradient.
#include <gtest/gtest.h>

#include "cuda/reduction/reduction.hpp"
#include "cuda/splits/add_splits.hpp"
#include "drawn_problem.hpp"
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

/// One problem in a namespace of its own: is_exact() runs it.
std::string case_source(const Problem& problem, const ReductionTile& tile, size_t number) {
    Device device = testing::kAmpere;
    device.multiprocessors = 1;
    const std::string digits = std::to_string(number);
    const KernelRequest products = reduction_request(problem, tile);
    return "#undef CONSTANTS\n#undef PLACE\nnamespace case_" + digits + " {\n" +
           testing::kernel_source("products", products, "PRODUCTS", digits) +
           "#undef __shared__\n#define __shared__ static\n" + // of a CTA at a time
           testing::kernel_source("bias", reduction_bias_request(problem), "BIAS", digits) +
           testing::kernel_source("add", add_splits_request(problem), "ADD_SPLITS", digits) +
           "#undef __shared__\n#define __shared__\n" + testing::given_source(problem) +
           testing::arguments_source(reduction_arguments(problem, tile), "kProductsArguments") +
           testing::arguments_source(reduction_bias_arguments(problem, device), "kBiasArguments") +
           testing::constant("kSharedBytes", products.dynamic_shared_bytes) +
           testing::constant("kItems", split_items(problem, tile) * tile.splits) +
           testing::arguments_source(reduction_split_sums(problem, tile.splits, device), "kAddArguments") +
           testing::constant("kBiasCtas", reduction_bias_ctas(problem, device)) +
           testing::constant("kWithBias", number % 4 != 3) + testing::constant("kLongSrc", number % 2) +
           testing::constant("kParts", reduction_parts(problem)) +
           "using Arguments = ReductionArguments;\n"
           "void place(Arguments& args, const void* src, const void* grad_dst) {\n"
           "    args.src = src;\n    args.grad_dst = grad_dst;\n}\n"
           "#include \"bwd_weight_case/is_exact.hpp\"\n}\n";
}

struct ToRun {
    Problem problem;
    ReductionTile tile;
};

/// All in one program: most of the time of one goes into headers.
void expect_exact(const std::vector<ToRun>& cases) {
    const testing::Emulator emulator;
    emulator.allow_again("reduction/constants.cuh", "CONSTANTS");
    emulator.allow_again("reduction/place.cuh", "PLACE");
    for (const char* name :
         {"reduction/copy.cuh", "reduction/lay_out.cuh", "reduction/multiply.cuh", "finish/thread_sums.cuh"})
        emulator.allow_again(name);
    std::string sources, calls;
    for (size_t i = 0; i < cases.size(); ++i) {
        const auto& [problem, tile] = cases[i];
        sources += case_source(problem, tile, i);
        calls += "    if (!case_" + std::to_string(i) + "::is_exact()) wrong += std::printf(\"" + problem.str() + ", " +
                 tile.str() + "\\n\");\n";
    }
    emulator.write("cases.cpp", "#include \"direct.hpp\"\n#undef __shared__\n#define __shared__\n"
                                "#include \"shared/reduction.cuh\"\nusing namespace tconv3d::cuda;\n" +
                                    sources + "int main() {\n    int wrong = 0;\n" + calls +
                                    "    return wrong == 0 ? 0 : 1;\n}\n");
    ASSERT_TRUE(emulator.compile("cases.cpp"));
    EXPECT_TRUE(emulator.execute()) << "the problems above are wrong";
}

TEST(ReductionEmulated, IsExactOnIntegersForEachTrait) {
    std::vector<ToRun> cases;
    for (const ReductionCase& one : kCases) {
        Problem problem = Problem::parse(one.problem);
        problem.direction = Direction::bwd_weight;
        problem.validate();
        ASSERT_LE(reduction_shared_bytes(problem, one.tile), testing::kAmpere.shared_memory_per_block) << one.problem;
        cases.push_back({problem, one.tile});
    }
    expect_exact(cases);
}

/// Some of the listed problems, each in one mode, with the tile that a small device would get.
TEST(ReductionEmulated, IsExactOnIntegersForListedProblems) {
    constexpr int64_t kMostWork = 1 << 20; // products that are computed, needed or not
    Device device = testing::kHopper;
    device.multiprocessors = 3;
    const std::vector<Problem> listed = testing::listed_problems();
    std::vector<ToRun> cases;
    size_t turn = 0;
    for (size_t i = 0; i < listed.size(); i += std::max<size_t>(testing::sampled_every() / 2, 1)) {
        Problem problem = testing::modes(listed[i])[turn++ % 8];
        problem.direction = Direction::bwd_weight;
        const Answer answer = answer_reduce({problem, {}, device, 1});
        if (!answer.accepts()) continue;
        const ReductionTile tile = best_reduction_tiles(problem, device, 1).front();
        const int64_t columns = tile.warp_columns() * tile.column_warps() * tile.src_channels / 16;
        if (split_items(problem, tile) * all_tiles(problem, tile) * columns * box_steps(problem, tile) * 128 <
            kMostWork)
            cases.push_back({problem, tile});
    }
    EXPECT_GT(cases.size(), 10U);
    expect_exact(cases);
}

/// Drawn problems, each with one of its best tiles. TCONV3D_TEST_EVERY=1 takes many more, TCONV3D_TEST_SEED others.
TEST(ReductionEmulated, IsExactOnIntegersForDrawnProblems) {
    constexpr size_t kAtOnce = 16, kTiles = 30;
    Device device = testing::kHopper;
    device.multiprocessors = 3;
    testing::Random random(testing::given_seed());
    std::vector<ToRun> cases;
    for (size_t left = 96 / testing::sampled_every(); left > 0;) {
        const std::optional<Problem> problem = testing::drawn_problem(random, Direction::bwd_weight);
        if (!problem || !answer_reduce({*problem, {}, device, 1}).accepts()) continue;
        const std::vector<ReductionTile> tiles = best_reduction_tiles(*problem, device, kTiles);
        cases.push_back({*problem, tiles[random() % tiles.size()]});
        if (--left > 0 && cases.size() < kAtOnce) continue;
        expect_exact(cases);
        cases.clear();
    }
}

} // namespace
} // namespace tconv3d::cuda
