// The outer form on the host, without a GPU: exact on small integers, with the second pass.
#include <gtest/gtest.h>

#include "cuda/outer/outer.hpp"
#include "cuda/reduction/reduction.hpp"
#include "emulated_bwd_weight.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

struct OuterCase {
    const char* problem;
    OuterTile tile;
    const char* why;
};

constexpr bool kRowsAreSrc = false, kRowsAreDst = true;

const OuterCase kCases[] = {
    {"n2 ci64 co16 2x3x8 k3 p1 bf16 ndhwc", {kRowsAreSrc, 16, 14, 4, 8}, "all taps in one block; rows in pairs"},
    {"n1 ci16 co64 2x4x16 k3 p1 f16 ndhwc", {kRowsAreDst, 16, 5, 2, 16}, "rows are dst's; blocks that are not full"},
    {"n1 ci64 co32 2x3x20 k3x2x1 p1x0x0 bf16 ndhwc",
     {kRowsAreSrc, 32, 3, 3, 16},
     "boxes that end outside; 64-byte rows"},
    {"n1 ci128 co64 2x2x9 k2 f16 ndhwc", {kRowsAreSrc, 64, 2, 2, 8}, "two tiles of rows"},
    {"n1 ci64 co128 1x2x32 k1x1x2 bf16 ndhwc",
     {kRowsAreSrc, 128, 1, 1, 32},
     "two atoms of 128-byte rows; a line of two k steps"},
    {"n1 ci96 co64 2x2x7 k1x2x2 f16 ndhwc", {kRowsAreDst, 96, 2, 2, 8}, "three atoms of src"},
    {"n1 ci64 co48 2x2x7 k1x2x2 f16 ndhwc", {kRowsAreSrc, 48, 2, 2, 8}, "three atoms of grad_dst, 32-byte rows"},
    {"n2 ci64 co32 3x4x6 k2 s2 bf16 ndhwc", {kRowsAreSrc, 32, 4, 4, 8}, "stride 2: a plane for each tap"},
    {"n1 ci64 co16 2x4x9 k3 s2 p1 op1 f16 ndhwc", {kRowsAreSrc, 16, 7, 4, 8}, "phases with one and with two taps"},
    {"n1 ci32 co64 2x3x17 k4 s2 p1 bf16 ndhwc", {kRowsAreDst, 32, 4, 3, 16}, "k4 s2, rows are dst's"},
    {"n1 ci64 co16 3x3x7 k2x3x2 s3x1x4 p1x0x2 op0x0x3 d2x3x1 f16 ndhwc",
     {kRowsAreSrc, 16, 6, 2, 8},
     "dilation; phases without taps"},
    {"n1 ci64 co16 2x3x5 k1 s2x3x2 op1 bf16 ndhwc",
     {kRowsAreSrc, 16, 1, 2, 8},
     "one tap: half of the products are not stored"},
    {"n2 ci128 co64 2x2x6 k2 g2 f16 ndhwc", {kRowsAreSrc, 32, 4, 2, 8}, "groups, columns in tiles"},
    {"n3 ci64 co16 3x5x9 k2 bf16 ndhwc",
     {kRowsAreSrc, 16, 4, 2, 8, 3, 5},
     "splits that begin within a slice, three stages"},
    {"n1 ci64 co16 1x1x1 k3 p1 f16 ndhwc", {kRowsAreSrc, 16, 14, 2, 8}, "one voxel"},
    {"n2 ci64 co16 2x3x8 k3 p1 bf16", {kRowsAreSrc, 16, 14, 4, 8, 2, 2}, "rows in NCDHW, two raw boxes under way"},
    {"n1 ci16 co64 2x4x16 k3 p1 f16", {kRowsAreDst, 16, 5, 2, 16, 2, 3}, "the same, rows are dst's; blocks of taps"},
    {"n1 ci64 co96 2x3x24 k3x2x2 p1x0x0 op0x0x0 d1x1x8 bf16",
     {kRowsAreSrc, 96, 2, 3, 16, 2, 2},
     "rows of dst that are longer; boxes that end outside"},
    {"n2 ci64 co32 3x4x8 k2 s2 f16", {kRowsAreSrc, 32, 4, 4, 8, 3, 2}, "stride 2: two planes of a raw box"},
    {"n1 ci64 co16 2x4x16 k3 s2 p1 op1 bf16", {kRowsAreSrc, 16, 3, 4, 8, 2, 4}, "phases with one and two taps, apart"},
    {"n1 ci32 co64 2x3x16 k4 s2 p1 f16", {kRowsAreDst, 32, 4, 3, 16, 2, 2}, "k4 s2: raw rows begin before the tensor"},
    {"n1 ci48 co64 1x3x8 k1x2x3 s1x1x4 p0x0x1 op0x0x3 bf16",
     {kRowsAreDst, 48, 3, 2, 8, 2, 2},
     "stride 4, a phase without taps, three atoms of 16"},
    {"n2 ci128 co64 2x2x8 k2x2x1 g2 f16", {kRowsAreSrc, 32, 2, 2, 8, 2, 2}, "groups"},
    {"n3 ci64 co16 3x5x16 k1x1x9 p0x0x4 bf16", {kRowsAreSrc, 16, 5, 2, 8, 3, 3, 5}, "splits; taps along a row"},
};

/// The prelude for the host: its one statement for the GPU's assembler is the emulator's product.
KernelRequest on_host(KernelRequest request, const Problem& problem) {
    const std::string word = problem.dtype == DType::bf16 ? "Bf16Pair" : "F16Pair";
    const size_t begin = request.prelude.find("asm volatile("), end = request.prelude.find(";\n}\n", begin);
    request.prelude.replace(begin, end - begin,
                            "ptx::wgmma_turned<ptx::" + word + ">(sums, kTileColumns, rows, columns)");
    return request;
}

/// The map of a tensor, `data` in the text.
std::string map_source(const tensorcore::MapShape& shape, const std::string& data) {
    const auto list = [](const std::array<int64_t, 5>& values) {
        std::string text;
        for (const int64_t value : values) text += std::to_string(value) + ", ";
        return "{" + text + "}";
    };
    return "{static_cast<const unsigned char*>(" + data + "), " + list(shape.extents) + ", " + list(shape.strides) +
           ", " + list(shape.box) + ", " + list(shape.steps) + ", 2, false, " + std::to_string(shape.swizzle) + "}";
}

std::string case_source(const Problem& problem, const OuterTile& tile, size_t number) {
    const std::string arguments = testing::arguments_source(outer_arguments(problem, tile), "kProductsArguments") +
                                  "using Arguments = OuterArguments;\nptx::TensorMap src_map, dst_map;\n"
                                  "void place(Arguments&, const void* src, const void* grad_dst) {\n    src_map = " +
                                  map_source(outer_src_map(problem, tile), "src") +
                                  ";\n    dst_map = " + map_source(outer_dst_map(problem, tile), "grad_dst") +
                                  ";\n}\n#undef PRODUCTS\n#define PRODUCTS(args) products::outer_" +
                                  std::to_string(number) + "(src_map, dst_map, args)\n";
    return "#include \"again.hpp\"\n" +
           testing::case_source(problem,
                                {on_host(outer_request(problem, tile), problem), arguments,
                                 outer_items(problem, tile) * tile.splits, tile.splits, false, false},
                                testing::kHopper, number);
}

using ToRun = testing::Tiled<OuterTile>;

void expect_exact(const std::vector<ToRun>& cases) {
    const testing::Emulator emulator;
    emulator.allow_all_again({"outer", "reduction/grad_weight.cuh"});
    testing::expect_exact(emulator, cases, case_source);
}

TEST(OuterEmulated, IsExactOnIntegersForEachTrait) {
    std::vector<ToRun> cases;
    for (const OuterCase& one : kCases) {
        const Problem problem = testing::parse_bwd_weight(one.problem);
        ASSERT_LE(outer_shared_bytes(problem, one.tile), testing::kHopper.shared_memory_per_block) << one.problem;
        cases.push_back({problem, one.tile});
    }
    expect_exact(cases);
}

/// The best tiles that a small device would get; none where the family does not take the problem.
std::vector<OuterTile> small_tiles(const Problem& problem) {
    Device device = testing::kHopper;
    device.multiprocessors = 3;
    const bool accepts = answer_outer({problem, {}, device, 1}).accepts();
    return accepts ? best_outer_tiles(problem, device, 30) : std::vector<OuterTile>();
}

/// Rows of both tensors that are multiples of 16 bytes, by as much padding or output padding as that takes.
void make_rows_whole(Problem& problem, testing::Random& random) {
    problem.src[2] = testing::draw(random, 1, 2) * 8;
    problem.stride[2] = 1 << random() % 3;
    problem.dilation[2] = 1;
    problem.kernel[2] = testing::draw(random, 1, 6);
    problem.padding[2] = testing::draw(random, 0, problem.kernel[2] - 1);
    problem.output_padding[2] = 0;
    while (problem.dst()[2] % 8 != 0) ++problem.kernel[2];
}

/// Of a drawn problem, one with as many channels as the form asks for.
std::vector<OuterTile> widened_tiles(Problem& problem, testing::Random& random) {
    problem.groups = 1;
    problem.src_channels = 64;
    problem.dst_channels = 16 << random() % 3;
    if (random() % 2 == 0) std::swap(problem.src_channels, problem.dst_channels);
    problem.layout = random() % 2 == 0 ? Layout::ndhwc : Layout::ncdhw;
    if (problem.layout == Layout::ncdhw) make_rows_whole(problem, random);
    problem.dtype = random() % 2 == 0 ? DType::bf16 : DType::f16;
    problem.math = MathMode::full;
    const int64_t taps = problem.kernel[0] * problem.kernel[1] * problem.kernel[2];
    if (taps * problem.batch * problem.src_voxels() > 8000) return {};
    return small_tiles(problem);
}

TEST(OuterEmulated, IsExactOnIntegersForDrawnProblems) {
    testing::Random random(testing::given_seed());
    std::vector<ToRun> cases;
    for (size_t left = 72 / testing::sampled_every(); left > 0;) {
        std::optional<Problem> problem = testing::drawn_problem(random, Direction::bwd_weight);
        const std::vector<OuterTile> tiles = problem ? widened_tiles(*problem, random) : std::vector<OuterTile>();
        if (tiles.empty()) continue;
        cases.push_back({*problem, tiles[random() % tiles.size()]});
        --left;
    }
    expect_exact(cases);
}

} // namespace
} // namespace tconv3d::cuda
