// The streamed form on the host, without a GPU: exact on small integers.
#include <gtest/gtest.h>

#include "cuda/tensorcore/families.hpp"
#include "emulated_tensorcore.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::best_for;
using testing::EmulatedTilings;
using testing::kHopper;
using testing::small_hopper;

/// What a case expects of its config beside the engine and the store.
enum Traits : unsigned {
    kPlain = 0,
    kRowsApart = 1,     ///< work items have one phase along H
    kOwnWeights = 2,    ///< CTAs pack their weights
    kSeveralSlices = 4, ///< a tile has several slices of an image
};

constexpr Traits operator|(Traits a, Traits b) {
    return static_cast<Traits>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

struct Case {
    const char* problem;
    Engine engine;
    Store store;
    const char* why;
    Traits traits = kPlain;

    bool has(Traits trait) const { return (traits & trait) != 0; }
};

constexpr Case kCases[] = {
    {"n2 ci92 co20 3x5x8 k3 tf32", Engine::wgmma, Store::voxels, "planes, channels that fill no tile, many stages"},
    {"n1 ci9 co24 5x9x16 k3 s2 p1 tf32", Engine::wgmma, Store::bulk_rows,
     "rows of odd length go through shared memory"},
    {"n1 ci16 co12 3x6x16 k3 s2 p1 bf16", Engine::wgmma, Store::bulk_rows, "the same in 16 bits"},
    {"n1 ci8 co12 3x6x16 k3 s2 p1 d2 tf32", Engine::wgmma, Store::bulk_rows, "the same, and slices without taps"},
    {"n2 ci16 co20 3x6x16 k3 s2 p1 d2 f16", Engine::wgmma, Store::bulk_rows, "the same in 16 bits"},
    {"n3 ci16 co8 3x4x8 k3x2x2 s2 f16", Engine::wgmma, Store::voxels,
     "phases of a voxel side by side, images that share a tile"},
    {"n3 ci40 co24 3x4x8 k2 s2 f16", Engine::wgmma, Store::voxels,
     "weights that the CTA packs, slices that share a tile", kOwnWeights | kSeveralSlices},
    {"n2 ci28 co40 2x5x8 k2 s2 g2 tf32", Engine::wgmma, Store::voxels, "the same for groups that fill no tile",
     kOwnWeights},
    {"n1 ci24 co72 2x4x5 k2 s2 bf16 ndhwc", Engine::wgmma, Store::channels, "the same, channels last", kOwnWeights},
    {"n3 ci40 co8 4x3x4 k2 s2 bf16", Engine::wgmma, Store::voxels, "the same, images that share a tile", kOwnWeights},
    {"n2 ci8 co8 6x3x8 k3x2x4 s3x2x2 p0x0x1 tf32", Engine::wgmma, Store::voxels,
     "slices that share a tile and have a halo", kSeveralSlices},
    {"n2 ci9 co8 6x2x3 k2x3x3 s2x1x1 f16", Engine::wgmma, Store::voxels, "odd rows, which come as ranges"},
    {"n3 ci20 co12 4x5x7 k3 s2 p1 op1 bf16", Engine::wgmma, Store::voxels, "the same: images, phases along W"},
    {"n1 ci9 co8 4x6x9 k3 p1 f32", Engine::wgmma, Store::voxels, "the same: fp32 in parts", kRowsApart},
    {"n1 ci16 co8 3x5x16 k3 p1 bf16", Engine::wgmma, Store::quads, "four voxels at once"},
    {"n1 ci16 co8 3x5x16 k3 bf16", Engine::wgmma, Store::pairs, "two voxels at once"},
    {"n1 ci40 co8 2x9x40 k3 p1 bf16", Engine::wgmma, Store::quads, "large planes of 16 bits, many channels"},
    {"n1 ci16 co8 2x5x200 k3x3x5 p1x1x3 f16", Engine::wgmma, Store::pairs,
     "rows of 16 bits that begin anywhere in 16 bytes"},
    {"n2 ci24 co8 3x3x8 k3x5x3 p1x3x1 f16", Engine::wgmma, Store::quads, "small planes of 16 bits within a halo"},
    {"n2 ci8 co16 3x4x5 k4x3x3 s2 p1 tf32 ndhwc", Engine::wgmma, Store::channels, "positions from TMA"},
    {"n1 ci16 co72 2x4x5 k3 s1x2x1 p1 g2 bf16 ndhwc", Engine::wgmma, Store::channels, "groups, channels of 16 bits"},
    {"n3 ci120 co16 2x4x5 k3 p1 bf16 ndhwc", Engine::wgmma, Store::channels,
     "64 bytes of channels in a row, some that are not there"},
    {"n2 ci64 co16 2x4x5 k2x3x3 tf32 ndhwc", Engine::wgmma, Store::channels, "128 bytes of channels in a row, images"},
    {"n2 ci24 co20 3x5x8 k5x3x4 s2 p1 tf32", Engine::wgmma, Store::voxels,
     "rows apart, one with more taps than the other", kRowsApart},
    {"n3 ci16 co40 5x4x4 k3x5x3 s1x3x2 p1x2x1 bf16 ndhwc", Engine::wgmma, Store::channels,
     "rows apart by three, images", kRowsApart},
    {"n1 ci24 co8 2x5x7 k3 d2 f32", Engine::wgmma, Store::voxels, "fp32 in parts, rows that TMA does not take",
     kRowsApart},
    {"n2 ci16 co12 3x5x8 k3x4x5 s2 p1x1x2 op1x0x0 f32", Engine::wgmma, Store::voxels,
     "fp32 in parts, taps of four sums in a group"},
    {"n1 ci16 co20 3x5x8 k3x5x4 s2 p1 f32", Engine::wgmma, Store::voxels, "fp32 in parts, rows apart", kRowsApart},
    {"n2 ci72 co8 3x4x8 k2 s2 f32", Engine::wgmma, Store::voxels, "fp32 in parts, weights that the CTA packs, slices",
     kOwnWeights | kSeveralSlices},
    {"n1 ci64 co8 2x4x4 k2 s2 f32", Engine::wgmma, Store::voxels,
     "the same, several k steps a stage, one active consumer", kOwnWeights},
    {"n2 ci28 co40 2x5x8 k2 s2 g2 f32", Engine::wgmma, Store::voxels,
     "fp32 in parts, two k steps summed up, one active consumer"},
    {"n1 ci32 co16 2x4x5 k2x2x4 s2 f32 ndhwc", Engine::wgmma, Store::channels, "the same, two tap groups"},
    {"n1 ci8 co8 2x3x4 k2x5x4 s1x2x2 f32", Engine::mma, Store::voxels, "fp32 in parts by mma.sync"},
    {"n1 ci8 co8 2x7x9 k2x6x6 f32", Engine::mma, Store::voxels, "the same, in passes over the taps of a row",
     kRowsApart},
    {"n1 ci8 co8 2x4x5 k3 s2 p1 op1 tf32", Engine::mma, Store::voxels, "mma.sync"},
    {"n2 ci5 co8 2x4x5 k3 p1 bf16 ndhwc", Engine::wgmma, Store::channels,
     "channels that TMA does not take, one by one: an odd number of 16 bits"},
    {"n1 ci10 co8 3x4x5 k3 s2 p1 f16 ndhwc", Engine::wgmma, Store::channels, "the same, two at once"},
    {"n1 ci24 co16 2x4x5 k3 p1 g2 bf16 ndhwc", Engine::wgmma, Store::channels, "the same, four at once, of groups"},
    {"n1 ci6 co8 3x4x5 k3 p1 tf32 ndhwc", Engine::wgmma, Store::channels, "the same in fp32, two at once"},
    {"n1 ci7 co8 2x4x5 k3 p1 f32 ndhwc", Engine::wgmma, Store::channels, "the same in parts, one by one"},
    {"n1 ci24 co8 2x4x5 k3 p1 f16 ndhwc", Engine::mma, Store::channels, "mma.sync, 16 bytes of channels at once"},
};

class StreamedEmulated : public ::testing::TestWithParam<size_t> {};

TEST_P(StreamedEmulated, IsExactOnIntegers) {
    EmulatedTilings emulated;
    for (const Case& one : testing::program(kCases, GetParam())) {
        const Problem problem = Problem::parse(one.problem);
        const RowPhases rows = one.has(kRowsApart) ? RowPhases::apart : RowPhases::together;
        const Tiling tiling = best_for(problem, TapTables(problem, rows), one.engine);
        const std::string where = std::string(one.problem) + ": " + one.why + "; " + tiling.name();
        EXPECT_EQ(name(tiling.config.store.way), std::string(name(one.store))) << where;
        EXPECT_EQ(tiling.config.packs_own_weights(), one.has(kOwnWeights)) << where;
        EXPECT_EQ(tiling.config.tile.slices > 1, one.has(kSeveralSlices)) << where;
        emulated.add(problem, tiling, one.why);
    }
    emulated.expect_exact();
}

INSTANTIATE_TEST_SUITE_P(All, StreamedEmulated, ::testing::Range<size_t>(0, testing::programs(kCases)));

/// Weights of which all rotations would be too many bytes: here the config is told so, and small ones do.
TEST(StreamedEmulatedWeights, CopiesRotateTheOnlyRotationThatIsPacked) {
    const struct {
        const char* problem;
        Engine engine;
    } cases[] = {{"n1 ci16 co8 7x4x8 k5x3x3 s2x1x1 p2x1x1 tf32", Engine::wgmma},
                 {"n1 ci8 co8 6x3x8 k4x2x2 s2 f32", Engine::wgmma},
                 {"n1 ci16 co16 7x4x8 k5x4x3 f32", Engine::wgmma},
                 {"n2 ci16 co8 5x4x5 k3 d2 bf16 ndhwc", Engine::wgmma},
                 {"n1 ci8 co8 5x3x8 k3x2x2 s1x2x2 tf32", Engine::mma}};
    EmulatedTilings emulated;
    for (const auto& [line, engine] : cases) {
        const Problem problem = Problem::parse(line);
        Tiling tiling = best_tilings(problem, small_hopper(), engine, Form::streamed, 1).front();
        ASSERT_FALSE(tiling.config.packs_own_weights()) << line;
        ASSERT_GT(tiling.tables.depth.rotations, 1) << line;
        const int64_t all = packed_words(problem, tiling.tables, tiling.config);
        tiling.config.weights.packing = Packing::one_rotation;
        EXPECT_EQ(packed_words(problem, tiling.tables, tiling.config) * tiling.tables.depth.rotations, all) << line;
        emulated.add(problem, tiling);
    }
    emulated.expect_exact();
}

/// Tiles that the output channels are no multiple of, though they are one of what a CTA packs at once: behind the last
/// weight nothing may be read.
TEST(StreamedEmulatedWeights, NoneAreReadOfChannelsThatAreNotThere) {
    EmulatedTilings emulated;
    for (const char* line : {"n1 ci8 co32 2x4x8 k3 f32", "n1 ci8 co32 2x3x5 k3 tf32 ndhwc"}) {
        const Problem problem = Problem::parse(line);
        Tiling tiling{TapTables(problem), {}};
        each_config(problem, tiling.tables, small_hopper(), Engine::wgmma, [&](const Config& config) {
            if (!config.packs_own_weights() && problem.dst_channels % config.tile.channels != 0) tiling.config = config;
        });
        ASSERT_GT(tiling.config.schedule.clocks, 0) << line;
        emulated.add(problem, tiling);
    }
    emulated.expect_exact();
}

/// Some of the problem file, each in another mode.
TEST(StreamedEmulatedFile, IsExactOnIntegers) {
    constexpr struct {
        DType dtype;
        MathMode math;
    } kModes[] = {{DType::f32, MathMode::tf32},
                  {DType::bf16, MathMode::full},
                  {DType::f16, MathMode::full},
                  {DType::f32, MathMode::full}};
    constexpr double kMostFlops = 2e7;
    const std::vector<Problem> problems = testing::listed_problems();
    size_t sample = 0;
    EmulatedTilings emulated;
    for (size_t i = 0; i < problems.size(); i += 3 * testing::sampled_every(), ++sample) {
        const auto& [dtype, math] = kModes[sample % std::size(kModes)];
        const Layout layout = sample / std::size(kModes) % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
        const Problem problem = testing::with(problems[i], dtype, math, layout);
        const bool small = problem.batch > 0 && problem.flops() < kMostFlops;
        if (!small || !answer_streamed({problem, {}, kHopper}).accepts()) continue;
        const Tiling tiling = best_tilings(problem, small_hopper(), Engine::wgmma, Form::streamed, 1).front();
        emulated.add(problem, tiling);
    }
    emulated.expect_exact();
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
