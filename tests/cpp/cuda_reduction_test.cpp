// The reduced form without a GPU: index arithmetic of its tiles, what they need, and what the family refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include <array>
#include <ctime>
#include <set>

#include "core/cuts.hpp"
#include "cuda/reduction/reduction.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::parse_bwd_weight;

using Triple = std::array<int, 3>;

Triple triple_of(const Extents& values) {
    return {static_cast<int>(values[0]), static_cast<int>(values[1]), static_cast<int>(values[2])};
}

/// Calls body(d, h, w) for all triples below the counts.
template <typename Body>
void for_each_triple(const Triple& counts, const Body& body) {
    for (int d = 0; d < counts[0]; ++d)
        for (int h = 0; h < counts[1]; ++h)
            for (int w = 0; w < counts[2]; ++w) body(d, h, w);
}

/// Problems of all kinds with the tile that a device would get.
struct Tiled {
    Problem problem;
    ReductionTile tile;
    Device device;
};

std::vector<Tiled> sampled_tiles() {
    std::vector<Problem> problems = testing::read_problems("baselines.txt");
    const std::vector<Problem> listed = testing::listed_problems();
    for (size_t i = 0; i < listed.size(); i += 5) problems.push_back(listed[i]);
    std::vector<Tiled> list;
    for (size_t i = 0; i < problems.size(); ++i) {
        Problem problem = testing::modes(problems[i])[i % 8];
        problem.direction = Direction::bwd_weight;
        const Device& device = i % 3 == 0 ? kAmpere : kHopper;
        if (!answer_reduce({problem, {}, device, 1}).accepts()) continue;
        list.push_back({problem, best_reduction_tiles(problem, device, 1).front(), device});
    }
    EXPECT_GT(list.size(), 40U);
    return list;
}

TEST(ReductionTiles, CoverEveryVoxelOnce) {
    for (const auto& [problem, tile, device] : sampled_tiles()) {
        const VoxelExtents tiles = image_tiles(problem, tile);
        const Extents counts = {tiles.d, tiles.h, tiles.w};
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_GE(counts[i] * tile.box[i], problem.src[i]) << problem.str() << ": " << tile.str();
            EXPECT_LT((counts[i] - 1) * tile.box[i], problem.src[i]) << problem.str() << ": " << tile.str();
        }
        EXPECT_EQ(all_tiles(problem, tile), problem.batch * counts[0] * counts[1] * counts[2]);
    }
}

/// The kernel reads grad_dst at the position of a voxel through the first tap plus that of a tap.
TEST(ReductionTiles, HaveEveryVoxelThatATapMeets) {
    for (const auto& [problem, tile, device] : sampled_tiles()) {
        const StagedBox box = staged_dst(problem, tile).box;
        const Triple stride = triple_of(reduction_stride(problem)), dilation = triple_of(reduction_dilation(problem));
        const Triple voxels = triple_of(tile.box);
        std::set<int> positions;
        for_each_triple({box.d, box.h, box.w}, [&](int d, int h, int w) { positions.insert(box.position(d, h, w)); });
        ASSERT_EQ(positions.size(), static_cast<size_t>(box.voxels())) << problem.str() << ": " << tile.str();
        ASSERT_GE(*positions.begin(), 0);
        ASSERT_LT(*positions.rbegin(), box.positions());
        int wrong = 0;
        for_each_triple(triple_of(tile.taps), [&](int tap_d, int tap_h, int tap_w) {
            const int x = tap_d * dilation[0], y = tap_h * dilation[1], z = tap_w * dilation[2];
            const int offset = box.position(x, y, z);
            for_each_triple(voxels, [&](int d, int h, int w) {
                const int met_d = d * stride[0] + x, met_h = h * stride[1] + y, met_w = w * stride[2] + z;
                const int met = box.position(d * stride[0], h * stride[1], 0) + w;
                const bool inside = met_d < box.d && met_h < box.h && met_w < box.w;
                wrong += inside && met + offset == box.position(met_d, met_h, met_w) ? 0 : 1;
            });
        });
        EXPECT_EQ(wrong, 0) << problem.str() << ": " << tile.str();
    }
}

TEST(ReductionTiles, FitIntoTheDevice) {
    for (const auto& [problem, tile, device] : sampled_tiles()) {
        const std::string where = problem.str() + ": " + tile.str();
        EXPECT_LE(reduction_shared_bytes(problem, tile), device.shared_memory_per_block) << where;
        EXPECT_LE(tile.ctas * reduction_shared_bytes(problem, tile), device.shared_memory_per_multiprocessor) << where;
        EXPECT_EQ(tile.src_channels % (16 * tile.row_warps), 0) << where;
        EXPECT_LE(tile.splits, std::max<int64_t>(all_tiles(problem, tile), 1)) << where;
        if (tile.splits > 1) {
            EXPECT_LE(tile.splits * split_sums(problem) * 4, 64 << 20) << where;
        }
    }
}

/// Eight positions for ldmatrix, or eight channels at four voxels of fp32, in different banks.
TEST(ReductionTiles, ReadsFragmentsWithoutBankConflicts) {
    for (int channels = 8; channels <= 128; channels += 8) {
        const StagedTensor pairs = {{1, 1, 8, 1}, channels, 0, 2, false, false, 1};
        const StagedTensor words = {{1, 1, 8, 1}, channels, 0, 4, false, false, 1};
        EXPECT_EQ(pairs.position_bytes() % 16, 0);
        EXPECT_EQ(words.position_bytes() % 16, 0);
        std::set<int> rows, banks;
        for (int voxel = 0; voxel < 8; ++voxel) rows.insert(voxel * pairs.position_bytes() / 16 % 8);
        for (int lane = 0; lane < 32; ++lane) banks.insert((lane % 4 * words.position_bytes() / 4 + lane / 4) % 32);
        EXPECT_EQ(rows.size(), 8U) << channels;
        EXPECT_EQ(banks.size(), 32U) << channels;
    }
}

/// A run of elements, wherever it begins, lies in the pieces that there is room for.
TEST(ReductionTiles, HaveRoomForUnalignedRuns) {
    for (const int bytes : {2, 4})
        for (int elements = 1; elements < 40; ++elements) {
            const StagedTensor rows = {{1, 1, elements, 1}, 8, 0, bytes, false, false, 1};
            for (int start = 0; start < 16; start += bytes)
                EXPECT_LE(start + elements * bytes, rows.run_bytes()) << elements << " of " << bytes << " at " << start;
            const StagedTensor aligned = {{1, 1, elements, 1}, 8, 0, bytes, false, true, 1};
            EXPECT_EQ(aligned.run_bytes(), round_up(elements * bytes, 16));
        }
}

/// Few channels are `cells`' or its own, as the estimates say.
TEST(ReductionFamily, TakesBaselinesOfManyChannelsAndNoDepthwiseOnes) {
    for (const Problem& problem : testing::read_problems("baselines.txt"))
        for (Problem mode : testing::modes(problem)) {
            mode.direction = Direction::bwd_weight;
            const int64_t fewest = std::min(mode.src_channels_per_group(), mode.dst_channels_per_group());
            for (const Device& device : {kHopper, kAmpere}) {
                const std::string chosen = choose(mode, {}, device).family->name;
                EXPECT_TRUE(chosen == "reduce" || (chosen == "sweep" && device.sm == 90) || fewest < 16) << mode.str();
                EXPECT_TRUE(chosen == "cells" || mode.groups < mode.src_channels) << mode.str();
            }
        }
}

TEST(ReductionFamily, SaysWhatItCannotTake) {
    Device turing = kAmpere;
    turing.sm = 75;
    const auto reason = [](const Problem& problem, const Device& device) {
        return answer_reduce({problem, {}, device, 1}).reason;
    };
    EXPECT_EQ(reason(Problem::parse("ci16 co16 8x8x8 k3"), kHopper), "takes bwd_weight, got fwd");
    EXPECT_EQ(reason(parse_bwd_weight("ci16 co16 8x8x8 k3 bf16"), turing),
              "mma.sync needs compute capability 8.0, got 7.5");
    EXPECT_EQ(reason(parse_bwd_weight("ci16 co16 8x8x8 k3 f64"), kHopper),
              "tensor cores take f32, bf16 and f16, got f64");
    EXPECT_EQ(reason(parse_bwd_weight("n3 ci16 co16 3x3x2 k3"), kHopper),
              "f32 in parts would be less accurate than PyTorch in sums of fewer than 64 products, got 54");
    EXPECT_EQ(reason(parse_bwd_weight("ci16 co16 1x1x600000000 k1 bf16"), kHopper),
              "takes extents and padding below 2^29, got 1x1x600000000 to 1x1x600000000, kernel 1, padding 0");
    EXPECT_EQ(reason(parse_bwd_weight("ci4 co600000000 1x1x1 k1 bf16"), kHopper),
              "takes fewer than 2^29 channels, got 4 and 600000000");
}

TEST(ReductionFamily, HasSumsOfSplitsAndOfTheBiasInItsWorkspace) {
    const Problem problem = parse_bwd_weight("n4 ci32 co9 32x32x32 k3 p1 bf16");
    const ReductionTile tile = best_reduction_tiles(problem, kHopper, 1).front();
    ASSERT_GT(tile.splits, 1);
    const int64_t bias = 9 * reduction_bias_arguments(problem, kHopper).parts;
    const auto kernel = answer_reduce({problem, {}, kHopper, 1}).candidates.front().prepare();
    EXPECT_EQ(kernel->workspace_bytes(), static_cast<size_t>((tile.splits * 27 * 32 * 10 + bias) * 4));
}

/// Its candidates are all different, the best first.
TEST(ReductionFamily, OffersSeveralTiles) {
    const Problem problem = parse_bwd_weight("n2 ci64 co64 32x32x32 k3 p1 bf16");
    const Answer answer = answer_reduce({problem, {}, kHopper, kMostCandidates});
    ASSERT_EQ(answer.candidates.size(), kMostCandidates);
    std::set<std::string> names;
    double before = 0;
    for (const KernelCandidate& candidate : answer.candidates) {
        names.insert(candidate.name);
        EXPECT_GE(candidate.microseconds, before);
        before = candidate.microseconds;
    }
    EXPECT_EQ(names.size(), kMostCandidates);
}

TEST(ReductionFamily, TakesNoLongerForLargeSizes) {
    for (const char* line : {"n100000000 ci32 co32 4x4x4 k3 p1 bf16 ndhwc", "ci16 co16 1x500000000x1 k3 p1 bf16",
                             "ci1 co1 1x1x1 k500000000x1x1 bf16", "ci16 co16 8x8x8 k512x1x1 d1000x1x1 tf32",
                             "ci16 co16 9x9x9 k9 s1000 p3000 bf16", "ci4096 co4096 64x64x64 k5 bf16"}) {
        const std::clock_t begin = std::clock(); // of this process: others may have the cores
        choose(parse_bwd_weight(line), {}, kHopper);
        // It takes less than 2 ms, more under the sanitizers; one by one, seconds.
        EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 2) << line;
    }
}

} // namespace
} // namespace tconv3d::cuda
