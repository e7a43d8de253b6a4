// The families direct and cells: tables and tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cuda/cells/bwd_weight.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/cells/window.hpp"
#include "cuda/direct/direct.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::listed_problems;

constexpr int kMultiprocessors = 132;

Problem in_direction(Problem problem, Direction direction) {
    problem.direction = direction;
    return problem;
}

/// (dst, tap, src) of every pair that meets, from the definition: stride · src − padding + tap · dilation = dst.
std::set<std::array<int64_t, 3>> meetings(const Problem& problem, size_t dim) {
    std::set<std::array<int64_t, 3>> found;
    for (int64_t src = 0; src < problem.src[dim]; ++src)
        for (int64_t tap = 0; tap < problem.kernel[dim]; ++tap) {
            const int64_t output = problem.stride[dim] * src - problem.padding[dim] + tap * problem.dilation[dim];
            if (output >= 0 && output < problem.dst()[dim]) found.insert({output, tap, src});
        }
    return found;
}

std::set<std::array<int64_t, 3>> meetings_of_cells(const Problem& problem, size_t dim, int64_t cell) {
    std::set<std::array<int64_t, 3>> found;
    const IndexMap map(problem);
    const Axis& axis = map.axes[dim];
    const std::vector<CellShift> shifts = cell_shifts(axis, cell);
    for (int64_t m = 0; m * cell < axis.out_extent; ++m)
        for (const CellShift& shift : shifts)
            for (const auto& [output, tap] : shift.uses) {
                const int64_t out = m * cell + output, in = cell / axis.out_stride * axis.in_stride * m + shift.shift;
                if (in < 0 || in >= axis.in_extent || out >= axis.out_extent) continue;
                const std::array<int64_t, 3> meeting =
                    problem.direction == Direction::fwd ? std::array{out, tap, in} : std::array{in, tap, out};
                EXPECT_TRUE(found.insert(meeting).second) << problem.str();
            }
    return found;
}

TEST(Cells, MeetEveryTapOnceInEveryDirection) {
    for (const Problem& listed : listed_problems())
        for (const Direction direction : {Direction::fwd, Direction::bwd_data, Direction::bwd_weight})
            for (size_t dim = 0; dim < 3; ++dim)
                for (const int64_t strides : {1, 2, 4}) {
                    const Problem problem = in_direction(listed, direction);
                    const int64_t cell = strides * (direction == Direction::fwd ? problem.stride[dim] : 1);
                    EXPECT_EQ(meetings_of_cells(problem, dim, cell), meetings(problem, dim))
                        << problem.str() << " dimension " << dim << ", cells of " << cell;
                }
}

TEST(Cells, LoadRowsOfGradientsInOneAccessWhereTheyAllowIt) {
    const auto vector = [](const char* line, int64_t cell_w) { return vector_voxels(Problem::parse(line), cell_w); };
    EXPECT_EQ(vector("ci2 co2 3x4x8 k4 s2 p1 g2 bwd_data", 2), 4);       // 16 bytes
    EXPECT_EQ(vector("ci2 co2 3x4x8 k4 s2 p1 g2 bwd_data", 4), 1);       // 32
    EXPECT_EQ(vector("ci2 co2 3x4x8 k4 s2 p1 g2 bf16 bwd_data", 4), 8);  // 16 again
    EXPECT_EQ(vector("ci2 co2 3x4x8 k4 s2 p1 g2 f64 bwd_weight", 1), 2); // and again
    EXPECT_EQ(vector("ci2 co2 3x4x7 k3 s2 p1 g2 bwd_data", 1), 1);       // rows of 13
    EXPECT_EQ(vector("ci2 co2 3x4x6 k3 s3 g2 bwd_data", 1), 1);          // 12 bytes
    EXPECT_EQ(vector("ci2 co2 3x4x8 k4 s2 p1 g2 ndhwc bwd_data", 2), 1); // channels are side by side
}

TEST(Cells, TakeUsualProblemsInEveryDtypeAndLayout) {
    for (const char* line : {"ci48 co24 96x96x96 k3", "ci64 co128 24x48x48 k3 s2 p1", "ci32 co32 8x8x8 k2 s2",
                             "ci32 co64 64x64x64 k3x5x5", "ci64 co64 32x32x32 k4 s2 p1 g64", "ci8 co8 8x8x8 k7 p3"})
        for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
            for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
                Problem problem = Problem::parse(line);
                problem.dtype = dtype;
                problem.layout = layout;
                for (const Direction direction : {Direction::fwd, Direction::bwd_data}) {
                    problem.direction = direction;
                    const CellTile tile = choose_cell_tile(problem, kMultiprocessors);
                    EXPECT_GT(tile.microseconds, 0) << problem.str();
                    EXPECT_GT(tile.chunk, 0) << problem.str();
                }
            }
}

/// Every voxel is in one split, every channel in a block, and partial sums stay within bounds.
TEST(Cells, CutVoxelsAndChannelsOfWeightGradients) {
    int taken = 0;
    for (const Problem& listed : listed_problems())
        for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
            for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
                const Problem problem =
                    in_direction(testing::with(listed, dtype, MathMode::full, layout), Direction::bwd_weight);
                const CellWeightTile tile = choose_cell_weight_tile(problem, kMultiprocessors);
                if (tile.microseconds <= 0) continue;
                ++taken;
                const CellSplits cut = cell_splits(problem, tile);
                EXPECT_GE(tile.splits * cut.split_tiles, cut.tiles) << problem.str();
                EXPECT_TRUE(tile.splits == 1 || (tile.splits - 1) * cut.split_tiles < cut.tiles) << problem.str();
                const int64_t cells = tile.threads / problem.kernel[0] / tile.lanes;
                EXPECT_EQ(cells * tile.lanes * problem.kernel[0], tile.threads) << problem.str();
                EXPECT_EQ(tile.threads / problem.kernel[0] % 32, 0) << problem.str();
                EXPECT_LE(tile.threads, 256) << problem.str();
                EXPECT_GE(cut.blocks * cells * tile.cell[1] * tile.cell[2], problem.src[1] * problem.src[2]);
                const int64_t pairs = tile.src_channels * tile.dst_channels * tile.lanes;
                EXPECT_GE(channel_blocks(problem, tile) * pairs * problem.groups,
                          problem.src_channels * problem.dst_channels_per_group())
                    << problem.str();
                EXPECT_LE(workspace_bytes(problem, tile), 64 << 20) << problem.str();
            }
    EXPECT_GT(taken, 1000);
}

TEST(Cells, SplitWhatHasFewChannelsUpTo64MiB) {
    const auto tile = [](const char* line) { return choose_cell_weight_tile(Problem::parse(line), kMultiprocessors); };
    EXPECT_GE(tile("n2 ci64 co64 32x32x32 k4 s2 p1 g64 bwd_weight").splits, 8);
    EXPECT_GE(tile("n16 ci1 co1 64x64x64 k3 bwd_weight").splits, 500);
    EXPECT_EQ(tile("n0 ci1 co1 64x64x64 k3 bwd_weight").splits, 1);
    EXPECT_LE(tile("n64 ci500 co500 32x32x32 k3 bwd_weight").splits, 2);
    EXPECT_EQ(tile("n1 ci1000 co1000 32x32x32 k3 bwd_weight").microseconds, 0); // 108 MB of one split
}

TEST(Cells, RefuseGradientsWithTheValues) {
    const auto reason = [](const char* line) {
        const Problem problem = Problem::parse(line);
        return answer_cells({problem, {}, testing::kHopper}).reason;
    };
    EXPECT_EQ(reason("ci2 co2 32x32x32 k3x8x8 g2 f64 bwd_weight"),
              "the sums of a thread do not fit in registers: 64 taps along h and w in f64");
    EXPECT_EQ(reason("ci2 co2 32x32x32 k9x1x1 g2 bwd_weight"),
              "takes kernels of at most 8 taps along d and 64 along h and w, got 9x1x1");
    EXPECT_EQ(reason("ci2 co2 3x3x3 k3 s1000 g2 bwd_weight"), "takes strides up to 512, got 1000");
    EXPECT_EQ(reason("ci1000 co1000 3x3x3 k3 bwd_weight"),
              "takes weights whose partial sums fit in 64 MiB, got 27000000 elements");
    EXPECT_EQ(reason("ci2 co2 32x32x32 k3x9x9 g2 bwd_data"),
              "a cell of one voxel is too large to unroll: kernel 3x9x9, stride 1");
}

/// Memory bounds them: by estimate, they take less than three times as long as their bytes.
TEST(Cells, TakeDepthwiseProblemsInEveryDirection) {
    for (const char* line : {"n2 ci64 co64 32x32x32 k4 s2 p1 g64", "n2 ci64 co64 32x32x32 k4 s2 p1 g64 ndhwc",
                             "n2 ci64 co64 32x32x32 k3 s2 p1 op1 g64", "n2 ci64 co64 32x32x32 k4 s2 p1 g64 f64"})
        for (const Direction direction : {Direction::fwd, Direction::bwd_data, Direction::bwd_weight}) {
            const Problem problem = in_direction(Problem::parse(line), direction);
            const Answer answer = answer_cells({problem, {}, testing::kHopper});
            ASSERT_TRUE(answer.accepts()) << problem.str() << ": " << answer.reason;
            EXPECT_LT(answer.candidates.front().microseconds, 3 * problem.bytes() / 4e6) << problem.str();
            EXPECT_LT(answer.candidates.front().microseconds,
                      answer_direct({problem, {}, testing::kHopper}).candidates.front().microseconds)
                << problem.str();
        }
}

/// A load of neighbouring channels takes as many instructions as one of a single channel.
TEST(Cells, TakeChannelsOfDepthwiseGroupsTogether) {
    const auto pack = [](const char* line, Direction direction) {
        const Problem problem = in_direction(Problem::parse(line), direction);
        return direction == Direction::bwd_weight ? choose_cell_weight_tile(problem, kMultiprocessors).pack
                                                  : choose_cell_tile(problem, kMultiprocessors).pack;
    };
    for (const Direction direction : {Direction::fwd, Direction::bwd_data, Direction::bwd_weight}) {
        EXPECT_EQ(pack("n2 ci64 co64 32x32x32 k4 s2 p1 g64 ndhwc", direction), 2);
        EXPECT_EQ(pack("n2 ci64 co64 32x32x32 k4 s2 p1 g64 bf16 ndhwc", direction), 2);
        EXPECT_EQ(pack("n2 ci64 co64 32x32x32 k4 s2 p1 g64 bf16", direction), 1);
        EXPECT_EQ(pack("n2 ci63 co63 32x32x32 k4 s2 p1 g63 bf16 ndhwc", direction), 1);
        EXPECT_EQ(pack("n2 ci64 co64 32x32x32 k4 s2 p1 g32 bf16 ndhwc", direction), 1);
        EXPECT_EQ(pack("n2 ci64 co128 32x32x32 k4 s2 p1 g64 bf16 ndhwc", direction), 1);
    }
}

TEST(Cells, SayHowTheySumWeightGradients) {
    const Problem problem = Problem::parse("n2 ci64 co64 32x32x32 k4 s2 p1 g64 ndhwc bwd_weight");
    const std::unique_ptr<Kernel> kernel = answer_cells({problem, {}, testing::kHopper}).candidates.front().prepare();
    EXPECT_EQ(kernel->describe(), "sums all taps of 2 pairs of channels over cells of 1x2x2 voxels in a thread for "
                                  "each tap along d, 64 channels of dst side by side; 391 splits");
    EXPECT_EQ(kernel->workspace_bytes(), 391U * (64 * 64 + 64) * 4);
}

TEST(Cells, IndexBeyond32BitsWhereASampleNeedsIt) {
    const auto offset = [](const char* line) {
        const Problem problem = Problem::parse(line);
        const KernelRequest request =
            cells_request(problem, choose_cell_tile(problem, kMultiprocessors), {}, {false, false});
        return request.prelude.find("using Offset = long long;") == std::string::npos ? 32 : 64;
    };
    EXPECT_EQ(offset("n100 ci64 co64 256x256x256 k2"), 32);
    EXPECT_EQ(offset("n1 ci64 co64 256x256x256 k2 ndhwc"), 64);
    EXPECT_EQ(offset("n1 ci1 co1 1024x1024x1024 k2"), 64);
    EXPECT_EQ(offset("n100 ci64 co64 256x256x256 k2 bwd_data"), 32);
    EXPECT_EQ(offset("n1 ci64 co64 256x256x256 k2 ndhwc bwd_data"), 64);
    // dst has one voxel, and the last of src reads 4 · 10^8 behind it.
    EXPECT_EQ(offset("ci1 co1 1x1x2000001 k1 s400 p0x0x400000000 bwd_data"), 64);
}

TEST(Direct, TakesEveryDirection) {
    for (const char* direction : {"fwd", "bwd_data", "bwd_weight"}) {
        const Problem problem = Problem::parse(std::string("n2 ci6 co4 3x4x5 k3 s2 p1 g2 ") + direction);
        const Answer answer = answer_direct({problem, {}, testing::kHopper});
        ASSERT_TRUE(answer.accepts()) << direction << ": " << answer.reason;
        EXPECT_GT(answer.candidates.front().microseconds, 0) << direction;
        EXPECT_EQ(answer.candidates.front().prepare()->workspace_bytes(), 0U) << direction;
        EXPECT_EQ(direct_request(problem, {}, {false, false}).entry, std::string("direct_") + direction);
    }
}

TEST(Direct, SaysHowItSums) {
    const auto describe = [](const char* line) {
        const Problem problem = Problem::parse(line);
        return answer_direct({problem, {}, testing::kHopper}).candidates.front().prepare()->describe();
    };
    EXPECT_EQ(describe("ci6 co3 3x4x5 k3 fwd"), "gathers one voxel x 3 channels in a thread");
    EXPECT_EQ(describe("ci6 co3 3x4x5 k3 bwd_data"), "gathers one voxel x 4 channels in a thread");
    EXPECT_EQ(describe("ci6 co3 3x4x5 k3 bwd_weight"), "sums one tap x 3 channels in a CTA, 8 threads along a row");
    EXPECT_EQ(describe("ci6 co3 3x4x50 k3 bwd_weight"), "sums one tap x 3 channels in a CTA, 32 threads along a row");
}

} // namespace
} // namespace tconv3d::cuda
