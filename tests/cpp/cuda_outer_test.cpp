// The family `outer`: what it takes, that its taps find what src meets, and that its tiles fit.
#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "core/cuts.hpp"
#include "cuda/outer/outer.hpp"
#include "cuda/reduction/tile.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::parse_bwd_weight;

TEST(OuterFamily, SaysWhatItCannotTake) {
    const auto reason = [](const std::string& line, const Device& device) {
        return answer_outer({parse_bwd_weight(line), {}, device, 1}).reason;
    };
    EXPECT_EQ(answer_outer({Problem::parse("ci64 co64 8x8x8 k3 bf16 ndhwc"), {}, kHopper, 1}).reason,
              "takes bwd_weight, got fwd");
    EXPECT_EQ(reason("ci64 co64 8x8x8 k3 bf16 ndhwc", kAmpere), "wgmma needs compute capability 9.0, got 8.0");
    EXPECT_EQ(reason("ci64 co64 8x8x8 k3 tf32 ndhwc", kHopper), "takes bf16 and f16, got f32");
    EXPECT_EQ(reason("ci64 co64 8x8x8 k3 bf16", kHopper),
              "takes rows that are multiples of 16 bytes in ncdhw, got rows of 8 and 10 voxels");
    EXPECT_EQ(reason("ci64 co64 8x8x8 k3 s3 bf16", kHopper), "takes strides of 1, 2, 4 and 8 along W in ncdhw, got 3");
    EXPECT_EQ(reason("ci64 co64 8x8x8 k3 p1 bf16", kHopper), "");
    EXPECT_EQ(reason("n0 ci64 co64 8x8x8 k3 bf16 ndhwc", kHopper).substr(0, 36),
              "takes tensors that are not empty, go");
    EXPECT_EQ(reason("ci64 co64 8x8x8 k3 s9 bf16 ndhwc", kHopper), "takes strides up to 8 along H and W, got 9");
    EXPECT_EQ(reason("ci64 co64 8x8x8 k32x33x1 bf16 ndhwc", kHopper), "takes up to 1024 taps, got 32x33x1");
    EXPECT_EQ(reason("ci96 co48 8x8x8 k3 bf16 ndhwc", kHopper),
              "takes groups with multiples of 16 channels, and of 64 on one side, got 96 and 48");
    EXPECT_EQ(reason("ci64 co40 8x8x8 k3 bf16 ndhwc", kHopper),
              "takes groups with multiples of 16 channels, and of 64 on one side, got 64 and 40");
    EXPECT_EQ(reason("ci64 co40 8x8x8 k3 s9x1x1 g8 bf16 ndhwc", kHopper),
              "takes groups with multiples of 16 channels, and of 64 on one side, got 8 and 5");
    EXPECT_EQ(reason("ci64 co48 8x8x8 k3 s9x1x1 bf16 ndhwc", kHopper), "");
}

/// What voxel `index` of src meets along a dimension through a tap.
int64_t met(const Problem& problem, size_t axis, int64_t index, int64_t tap) {
    return index * reduction_stride(problem)[axis] + tap * reduction_dilation(problem)[axis] - problem.padding[axis];
}

/// Every tap is in one block, and where it says, seen from any voxel of src, is what it meets.
void expect_taps(const Problem& problem, int64_t block_taps) {
    std::set<int64_t> numbers;
    const OuterHalo halo = outer_halo(problem);
    const Extents stride = reduction_stride(problem);
    for (const OuterTapBlock& block : outer_tap_blocks(problem, block_taps)) {
        EXPECT_LE(static_cast<int64_t>(block.taps.size()), block_taps);
        for (const OuterTap& tap : block.taps) {
            EXPECT_TRUE(numbers.insert(tap.number).second) << problem.str() << ": tap " << tap.number << " twice";
            const Extents taps = {tap.number / problem.kernel[2] / problem.kernel[1],
                                  tap.number / problem.kernel[2] % problem.kernel[1], tap.number % problem.kernel[2]};
            const Extents first = block.planes[static_cast<size_t>(tap.plane)].first, distance = {0, tap.h, tap.w};
            EXPECT_LE(tap.h, halo.h);
            EXPECT_LE(tap.w, halo.w);
            for (size_t axis = 0; axis < 3; ++axis)
                for (const int64_t index : {0, 1, 5})
                    EXPECT_EQ(stride[axis] * index + first[axis] + stride[axis] * distance[axis],
                              met(problem, axis, index, taps[axis]))
                        << problem.str() << ": tap " << tap.number;
        }
    }
    EXPECT_EQ(static_cast<int64_t>(numbers.size()), problem.kernel[0] * problem.kernel[1] * problem.kernel[2]);
}

TEST(OuterTaps, FindWhatSrcMeets) {
    for (const char* file : {"baselines.txt", "correctness.txt"})
        for (Problem problem : testing::read_problems(file)) {
            problem.direction = Direction::bwd_weight;
            const int64_t taps = problem.kernel[0] * problem.kernel[1] * problem.kernel[2];
            const Extents reach = reduction_dilation(problem);
            if (taps > 1024 || *std::max_element(reach.begin(), reach.end()) > 1 << 20) continue;
            for (const int64_t block : {1, 6, 18}) expect_taps(problem, block);
        }
}

/// A raw row has all voxels of the planes of its phases, where warps look for them.
void expect_raw_rows(const Problem& problem, int64_t width) {
    const OuterRawRows rows = outer_raw_rows(problem, width);
    const int64_t stride = reduction_stride(problem)[2], last = width + outer_halo(problem).w - 1;
    EXPECT_EQ(rows.first % 8, 0);
    EXPECT_EQ(rows.width % 16, 8);
    for (const OuterTapBlock& block : outer_tap_blocks(problem, 4)) {
        size_t planes = 0;
        for (const OuterTapBlock::RawBox& box : block.raw_boxes()) {
            planes += box.end - box.begin;
            for (size_t plane = box.begin; plane < box.end; ++plane) {
                const int64_t first = block.planes[plane].first[2];
                EXPECT_EQ(rows.phase_first[outer_phase(problem, block.planes[plane])], first) << problem.str();
                EXPECT_GE(first, rows.first) << problem.str();
                EXPECT_LT(first + stride * last, rows.first + rows.width) << problem.str();
            }
        }
        EXPECT_EQ(planes, block.planes.size()) << problem.str();
    }
}

TEST(OuterTaps, AreInTheRowsOfRawBoxes) {
    for (const char* line : {"ci64 co64 4x4x8 k3 p1", "ci64 co64 4x4x16 k5 s2 p2", "ci64 co64 4x4x8 k3 s2 p1 op1 d2",
                             "ci64 co64 4x4x8 k7 s4 p9", "ci64 co64 4x4x24 k2 s8", "ci64 co64 4x4x8 k1x1x12 p0x0x3 d3"})
        for (const int64_t width : {8, 16, 48}) expect_raw_rows(parse_bwd_weight(line), width);
}

TEST(OuterTiles, FitAndCoverTheProblem) {
    size_t drawn = 0, taken = 0;
    for (const char* file : {"baselines.txt", "wild.txt"})
        for (Problem problem : testing::read_problems(file)) {
            problem.direction = Direction::bwd_weight;
            problem.dtype = DType::bf16;
            problem.math = MathMode::full;
            problem.layout = ++drawn % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
            if (!answer_outer({problem, {}, kHopper, 1}).accepts()) continue;
            ++taken;
            for (const OuterTile& tile : best_outer_tiles(problem, kHopper, 8)) {
                const std::string where = problem.str() + ", " + tile.str();
                EXPECT_LE(outer_shared_bytes(problem, tile), kHopper.shared_memory_per_block) << where;
                EXPECT_LE(tile.taps * tile.columns / 2, 192) << where;
                EXPECT_EQ(tile.height * tile.width % 16, 0) << where;
                EXPECT_TRUE(tile.width % 16 == 0 || (tile.width == 8 && tile.height % 2 == 0)) << where;
                EXPECT_GE(outer_boxes(problem, tile), tile.splits) << where;
                for (const tensorcore::MapShape& map : {outer_src_map(problem, tile), outer_dst_map(problem, tile)})
                    for (size_t i = 0; i < 5; ++i) {
                        EXPECT_LE(map.box[i] * map.steps[i], 256) << where;
                        EXPECT_LE(map.steps[i], 8) << where;
                        EXPECT_EQ(i == 0 ? 0 : map.strides[i] % 8, 0) << where;
                    }
            }
        }
    EXPECT_GT(taken, 20U);
}

} // namespace
} // namespace tconv3d::cuda
