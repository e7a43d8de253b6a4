// The gathered form on the host, without a GPU: exact on small integers.
#include <gtest/gtest.h>

#include "cuda/tensorcore/gathered/tiles.hpp"
#include "emulated_tensorcore.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::EmulatedTilings;
using testing::small_hopper;

/// What the config of a case has; it lacks the others.
enum Traits : unsigned {
    kPlain = 0,
    kImages = 1,      ///< a tile has several images
    kInterleaved = 2, ///< rows of all images are side by side
    kCut = 4,         ///< rows are cut
    kRetained = 8,    ///< input slices stay in their stages
    kSeams = 16,      ///< sectors in which rows meet are cleared before
    kRanges = 32,     ///< a storer sends the rows of a channel as one range
};

constexpr Traits operator|(Traits a, Traits b) {
    return static_cast<Traits>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

Traits traits_of(const Config& config, const TapTables& tables) {
    return (config.tile.images > 1 ? kImages : kPlain) | (config.plane.interleaved ? kInterleaved : kPlain) |
           (config.tile.w < tables.q_count[2] ? kCut : kPlain) | (config.pipeline.retains_slices ? kRetained : kPlain) |
           (config.store.way == Store::seamed_rows ? kSeams : kPlain) |
           (config.store.way == Store::bulk_rows ? kRanges : kPlain);
}

struct Case {
    const char* problem;
    const char* why;
    Traits traits = kPlain;
};

constexpr Case kCases[] = {
    {"n1 ci16 co72 3x5x16 k3 bf16", "channels that fill no tile, rows whose halo is the next one's"},
    {"n2 ci40 co20 3x7x8 k3 p1 f16", "many stages"},
    {"n1 ci8 co20 3x8x16 k3 tf32", "fp32"},
    {"n1 ci16 co8 2x9x48 k3x5x3 bf16", "rows in several runs, contiguous in dst"},
    {"n1 ci8 co8 2x9x32 k3x5x3 p1x2x1 tf32", "the same in fp32, within a halo"},
    {"n1 ci16 co8 2x5x14 k3 p0x1x1 f16", "two voxels at once"},
    {"n1 ci8 co12 2x5x16 k3x3x4 p1 s1x1x2 d1x2x1 tf32", "phases along W in fp32, dilation"},
    {"n1 ci16 co72 3x6x16 k3 s2 p1 op1 bf16", "phases along H in turn"},
    {"n1 ci16 co12 3x5x8 k3 s2x1x1 p1x1x1 op1x0x0 f16", "phases along D"},
    {"n2 ci8 co8 3x5x16 k3x3x4 s2 p1 d2x1x1 tf32", "slices without taps"},
    {"n1 ci16 co8 3x5x13 k3x3x2 p1x1x0 bf16", "rows that TMA does not take"},
    {"n1 ci16 co8 2x4x24 k3x3x4 s1x1x2 p1 bf16", "rows that are cut", kCut},
    {"n1 ci16 co8 2x4x32 k3x3x3 p1x1x1 bf16", "the same, four voxels at once", kCut},
    {"n4 ci16 co8 2x4x6 k3 p1 f16", "images one behind the other", kImages},
    {"n5 ci16 co72 3x8x8 k4 s2 p1 bf16", "images side by side in each row", kImages | kInterleaved},
    {"n3 ci24 co72 3x6x8 k4 s2 p1 tf32", "the same in fp32", kImages | kInterleaved},
    {"n1 ci16 co72 3x5x7 k3 bf16 ndhwc", "channels last"},
    {"n2 ci8 co22 3x4x5 k3 s2 p1 tf32 ndhwc", "the same in fp32, phases along H in turn"},
    {"n4 ci16 co16 2x3x5 k3 p1 g2 f16 ndhwc", "groups"},
    {"n2 ci1 co24 3x5x16 k3 p1 bf16 ndhwc", "one input channel, which is a plane"},
    {"n2 ci1 co24 3x5x9 k3 s2 p1 tf32 ndhwc", "the same, rows that TMA does not take"},
    {"n4 ci16 co7 2x3x6 k3 p1 f16 ndhwc", "images, an odd number of channels", kImages},
    {"n5 ci16 co72 3x8x8 k4 s2 p1 bf16 ndhwc", "images side by side in each row", kImages | kInterleaved},
    {"n3 ci24 co13 3x6x7 k4x3x3 s2x1x1 p1 tf32 ndhwc", "the same in fp32, an odd number of channels",
     kImages | kInterleaved},
    {"n3 ci56 co20 3x6x8 k4 s2 p1 bf16 ndhwc", "the same, 128 bytes of channels in a row, slices that stay",
     kImages | kInterleaved | kRetained},
    {"n2 ci64 co16 2x4x5 k2x3x3 tf32 ndhwc", "the same, images one behind the other", kImages | kRetained},
    {"n1 ci8 co8 2x3x8 k1 p1 tf32", "padding beyond the kernel"},
    {"n1 ci16 co72 3x5x16 k3 s2 p1 bf16", "rows of odd length in 16 bits"},
    {"n2 ci8 co20 3x6x8 k3 s2 p1 tf32", "the same in fp32, several items"},
    {"n1 ci16 co8 2x5x16 k3x3x4 f16", "the same, stride 1"},
    {"n1 ci8 co8 2x5x8 k3x3x4 p1 tf32", "the same in fp32"},
    {"n1 ci16 co8 2x4x24 k3 s1x1x2 p1 bf16", "rows of odd length that are cut", kCut},
    {"n1 ci8 co8 2x4x24 k3 s1x1x2 p1 tf32", "the same in fp32", kCut},
    {"n1 ci16 co8 7x5x16 k3 bf16", "slices that stay", kRetained},
    {"n2 ci32 co72 5x4x8 k3x3x3 p1 tf32", "the same, several stages and items", kRetained},
    {"n2 ci16 co20 5x4x16 k3 s2 p1 op1 f16", "the same, phases", kRetained},
    {"n1 ci16 co8 5x4x16 k3 s2 p1 bf16", "the same, rows of odd length", kRetained},
    {"n1 ci16 co16 6x4x8 k3x3x3 d2x1x1 p1 bf16", "the same, dilation along D", kRetained},
    {"n3 ci16 co16 4x3x5 k4x3x3 s2x1x1 p3x1x1 bf16 ndhwc", "the same, channels last, slices without taps", kRetained},
    {"n3 ci8 co8 1x3x8 k3x3x3 s3x1x1 p1x1x1 op2x0x0 tf32", "the same, slices that no step reads", kRetained},
    {"n2 ci8 co20 3x6x8 k3 s2 p1 tf32", "rows that meet within sectors", kSeams},
    {"n1 ci8 co8 2x5x8 k3x3x4 p1 tf32", "the same, stride 1", kSeams},
    {"n1 ci16 co8 2x5x16 k3x3x4 f16", "the same in 16 bits", kSeams},
    {"n1 ci8 co8 2x4x16 k3x5x3 s1x3x2 p1 tf32", "the same, three phases along H", kSeams},
    {"n1 ci16 co8 2x4x16 k3x5x3 s1x3x2 p1 f16", "the same in 16 bits", kSeams},
    {"n1 ci16 co72 3x5x16 k3 s2 p1 bf16", "row ranges of many rows", kRanges},
    {"n2 ci16 co20 3x4x15 k3 s2 p1 f16", "the same, an odd number of voxels", kRetained | kRanges},
    {"n1 ci16 co8 4x5x16 k3x4x4 s1x2x1 p1 bf16", "the same, stride 1 along W", kRetained | kRanges},
    {"n1 ci16 co8 3x3x18 k1x3x3 s2 p1 op1x0x0 bf16", "the same, slices without taps", kRetained | kRanges},
    {"n1 ci16 co8 2x4x16 k3x3x4 s2 p1x1x0 f16", "the same, rows of even length", kRetained | kRanges},
};

/// The best config with the traits of a case.
Tiling tiling_of(const Problem& problem, Traits traits) {
    const RowPhases rows = problem.stride[1] > 1 ? RowPhases::apart : RowPhases::together;
    Tiling tiling{TapTables(problem, rows, Form::gathered), {}};
    each_gathered_config(problem, tiling.tables, small_hopper(), [&](const Config& config) {
        const double least = tiling.config.schedule.clocks;
        if (traits_of(config, tiling.tables) != traits) return;
        if (least <= 0 || config.schedule.clocks < least) tiling.config = config;
    });
    return tiling;
}

class GatheredEmulated : public ::testing::TestWithParam<size_t> {};

TEST_P(GatheredEmulated, IsExactOnIntegers) {
    EmulatedTilings emulated;
    for (const Case& one : testing::program(kCases, GetParam())) {
        const Problem problem = Problem::parse(one.problem);
        const Tiling tiling = tiling_of(problem, one.traits);
        ASSERT_GT(tiling.config.schedule.clocks, 0) << one.problem << ": no such config";
        emulated.add(problem, tiling, one.why);
        // What passes through shared memory does so for each tensor.
        if (tiling.config.store.passes_shared_memory()) emulated.add(problem, tiling, one.why, true);
    }
    emulated.expect_exact();
}

INSTANTIATE_TEST_SUITE_P(All, GatheredEmulated, ::testing::Range<size_t>(0, testing::programs(kCases)));

} // namespace
} // namespace tconv3d::cuda::tensorcore
