// The family `sweep`: what it takes, and that its tiles fit and cover the problem.
#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "cuda/sweep/cost.hpp"
#include "cuda/sweep/sweep.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::parse_bwd_weight;

/// Every problem of the files that the family takes, in every mode.
std::vector<Problem> taken_problems() {
    std::vector<Problem> list;
    for (const char* file : {"baselines.txt", "correctness.txt"})
        for (const Problem& problem : testing::read_problems(file))
            for (Problem mode : testing::modes(problem)) {
                mode.direction = Direction::bwd_weight;
                if (answer_sweep({mode, {}, kHopper, 1}).accepts()) list.push_back(mode);
            }
    return list;
}

TEST(SweepFamily, SaysWhatItCannotTake) {
    const auto reason = [](const std::string& line, const Device& device) {
        return answer_sweep({parse_bwd_weight(line), {}, device, 1}).reason;
    };
    EXPECT_EQ(answer_sweep({Problem::parse("ci16 co16 8x8x8 k3 bf16"), {}, kHopper, 1}).reason,
              "takes bwd_weight, got fwd");
    EXPECT_EQ(reason("ci16 co16 8x8x8 k3 bf16", kAmpere), "wgmma needs compute capability 9.0, got 8.0");
    EXPECT_EQ(reason("ci16 co16 8x8x8 k3 f64", kHopper), "tensor cores take f32, bf16 and f16, got f64");
    EXPECT_EQ(reason("ci16 co16 8x8x8 k3 f32", kHopper), "takes fp32 as tf32 only, got fp32 in full");
    EXPECT_EQ(reason("ci16 co16 8x8x1 k3 s1x1x100000000 bf16", kHopper).substr(0, 58),
              "takes extents, padding, stride and dilation below 2^26, go");
    EXPECT_EQ(reason("ci16 co16 1024x1024x1024 k1 bf16", kHopper).substr(0, 32), "takes volumes below 2^30 voxels,");
    EXPECT_EQ(reason("ci8192 co16 1x2x262144 k1 bf16 ndhwc", kHopper).substr(0, 42),
              "takes rows of fewer than 2^32 bytes in ndh");
    EXPECT_EQ(reason("ci8192 co16 1x2x262144 k1 bf16", kHopper), "");
    // The weight is so large that there is one split, which has some 64 slices of 60 million images.
    EXPECT_EQ(reason("n60000000 ci1 co1 64x1x1 k256 p128x127x127 bf16", kHopper),
              "has no tile that fits into shared memory and whose work is counted in 32 bits");
}

TEST(SweepFamily, TilesFitAndCoverTheProblem) {
    const std::vector<Problem> problems = taken_problems();
    EXPECT_GT(problems.size(), 200U);
    const size_t step = testing::sampled_every() > 1 ? 5 : 1;
    for (size_t i = 0; i < problems.size(); i += step) {
        const Problem& problem = problems[i];
        for (const SweepTile& tile : best_sweep_tiles(problem, kHopper, 8)) {
            const std::string where = problem.str() + ", " + tile.str();
            const SweepPlane plane = sweep_plane(problem, tile);
            const SweepRoles roles = sweep_roles(problem, tile.moves_src);
            const SweepArguments args = sweep_arguments(problem, tile);
            EXPECT_LE(sweep_shared_bytes(problem, tile), kHopper.shared_memory_per_block) << where;
            EXPECT_GE(args.tiles_h * tile.height, roles.fixed[1]) << where;
            EXPECT_GE(args.tiles_w * plane.tile_w(), roles.fixed[2]) << where;
            EXPECT_GE(tile.warpgroup_tiles() * SweepThreads::kConsumers / 2, tile.rows()) << where;
            EXPECT_EQ(tile.fixed_channels % 8, 0) << where;
            EXPECT_TRUE(plane.row_cells == 1 || plane.row_cells % 2 == 0) << where;
            EXPECT_EQ(plane.cells() % 2, 0) << where;
            const SweepIteration iteration = sweep_iteration(tile);
            const int64_t products = iteration.lines * sweep_line_steps(tile) * tile.warpgroup_tiles();
            EXPECT_EQ(sweep_lines(tile) % iteration.lines, 0) << where;
            EXPECT_EQ(iteration.groups % 2, 0) << where;
            EXPECT_LE(iteration.groups, products) << where;
            EXPECT_LE((products + iteration.groups - 1) / iteration.groups * 2 * 4, sweep_row_registers(tile)) << where;
            EXPECT_GE(tile.splits, 1) << where;
            EXPECT_LE(tile.splits, std::max<int64_t>(sweep_slices(problem, tile), 1)) << where;
        }
    }
}

/// What a tap of a block reads of the moved tensor, in words of 32 bits or positions of 16 bytes, is where the voxel
/// is.
TEST(SweepFamily, TapsBeginWhereTheirVoxelsAre) {
    for (const bool chunks : {false, true})
        for (const int bytes : {2, 4})
            for (int stride = 1; stride <= 3; ++stride)
                for (int dilation = 1; dilation <= 3; ++dilation) {
                    const SweepPlane plane = {2, 2, stride, stride, dilation, dilation, 3, 4, bytes, chunks, false};
                    std::set<int> begins;
                    for (int h = 0; h < 3; ++h)
                        for (int w = 0; w < 4; ++w) {
                            const int begin = plane.tap_byte(h, w),
                                      last = begin + plane.tile_w() * (chunks ? 16 : bytes);
                            EXPECT_LE(last + plane.stride_h * plane.row_bytes(), plane.met_h() * plane.row_bytes());
                            EXPECT_EQ(begin % (chunks ? 16 : 4), 0);
                            begins.insert(begin);
                        }
                    EXPECT_EQ(begins.size(), 12U) << "stride " << stride << ", dilation " << dilation;
                }
}

TEST(SweepFamily, KeepsTheSlicesThatTapsStillNeed) {
    const auto check = [](SweepDepth depth, int step, int met, int fresh) {
        EXPECT_EQ(depth.step(), step);
        EXPECT_EQ(depth.met(), met);
        EXPECT_EQ(depth.fresh(), fresh);
        EXPECT_EQ(depth.slots(2), met + fresh);
    };
    check({1, 1, 3}, 1, 3, 1);
    check({2, 1, 3}, 1, 3, 2);
    check({2, 2, 3}, 2, 3, 1); // every second slice is met
    check({3, 1, 2}, 1, 2, 2); // the slice between two of the fixed tensor's is not met
    check({2, 1, 1}, 1, 1, 1);
    check({1, 3, 2}, 1, 4, 1);
}

TEST(SweepFamily, PlansInNoTimeWhateverTheSize) {
    for (const char* line : {"n100000000 ci64 co64 16x16x16 k3 s2 p1 bf16", "n2 ci512 co512 512x512x512 k5 tf32",
                             "n1 ci4096 co4096 64x64x64 k7 s2 bf16 ndhwc"})
        EXPECT_TRUE(best_sweep_tiles(parse_bwd_weight(line), kHopper, 8).size() <= 8) << line;
}

} // namespace
} // namespace tconv3d::cuda
