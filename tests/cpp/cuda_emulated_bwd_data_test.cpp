// bwd_data on tensor cores on the host, without a GPU: exact on small integers.
#include <gtest/gtest.h>

#include "cuda/tensorcore/families.hpp"
#include "emulated_tensorcore.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::EmulatedTilings;
using testing::small_hopper;

enum class Kind { streamed, gathered, mma };

/// What the config of a case has beside its kind and its source; it lacks the others.
enum Traits : unsigned {
    kPlain = 0,
    kImages = 1,      ///< a tile has several images
    kCut = 2,         ///< rows are cut
    kRetained = 4,    ///< input slices stay in their stages
    kInterleaved = 8, ///< rows of all images are side by side
    kSixWarps = 16,   ///< a warpgroup of its own rearranges too
};

constexpr Traits operator|(Traits a, Traits b) {
    return static_cast<Traits>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

Traits traits_of(const Config& config, const TapTables& tables) {
    return (config.tile.images > 1 ? kImages : kPlain) | (config.tile.w < tables.q_count[2] ? kCut : kPlain) |
           (config.pipeline.retains_slices ? kRetained : kPlain) | (config.plane.interleaved ? kInterleaved : kPlain) |
           (config.has_rearrangers() ? kSixWarps : kPlain);
}

struct Case {
    const char* problem;
    Kind kind;
    Source source;
    const char* why;
    Traits traits = kPlain;
};

constexpr Case kCases[] = {
    {"n1 ci20 co40 3x20x16 k3 p1 bf16", Kind::streamed, Source::rows, "stride 1"},
    {"n1 ci12 co9 3x5x5 k3x2x3 d2x1x1 p0x0x1 tf32", Kind::streamed, Source::ranges, "stride 1, dilation"},
    {"n1 ci20 co16 3x5x8 k3 p1 g2 bf16 ndhwc", Kind::streamed, Source::swizzled, "stride 1, groups"},
    {"n1 ci24 co16 3x9x16 k3 s2 p1 op1 tf32", Kind::streamed, Source::rows, "input planes of rows of fp32"},
    {"n1 ci24 co16 3x9x12 k4 s2 p1 bf16", Kind::streamed, Source::rows, "input planes of rows of 16 bits"},
    {"n1 ci24 co16 3x9x12 k4 s2 p1 bf16", Kind::streamed, Source::rows, "the same, more warps", kSixWarps},
    {"n1 ci20 co40 3x20x16 k3 p1 bf16", Kind::streamed, Source::rows, "the same, stride 1", kSixWarps},
    {"n1 ci24 co8 3x9x12 k4 s2 p1 bf16", Kind::streamed, Source::rows, "fewer channels than a stage has room for",
     kSixWarps},
    {"n1 ci24 co64 3x9x12 k4 s2 p1 bf16", Kind::streamed, Source::rows, "several stages of channels", kSixWarps},
    {"n1 ci8 co40 3x9x8 k4x3x5 s2x1x4 p1x1x2 op0x0x3 f16", Kind::streamed, Source::rows, "four input planes along W"},
    {"n1 ci16 co9 4x5x11 k3 s2 p1 op1 d2 bf16", Kind::streamed, Source::rows, "an input plane of two along W"},
    {"n2 ci8 co8 2x4x6 k2 s2 f16", Kind::streamed, Source::whole_planes, "rows that end within eight elements",
     kImages},
    {"n1 ci8 co4 3x9x16 k3 s2 p1 op1 tf32", Kind::streamed, Source::rows, "half of a stage's channels in fp32"},
    {"n1 ci8 co3 3x7x9 k3 s2 p1 f32", Kind::streamed, Source::ranges, "the same in parts, ranges", kSixWarps},
    {"n1 ci8 co8 3x20x13 k3 s2 p1 bf16", Kind::streamed, Source::ranges, "the same in 16 bits", kSixWarps},
    {"n1 ci8 co20 3x9x13 k3x3x5 s2x2x3 p1 bf16", Kind::streamed, Source::ranges, "a part of a core matrix, stride 3"},
    {"n2 ci24 co64 4x8x8 k4 s2 p1 bf16", Kind::gathered, Source::whole_planes, "whole planes, several k steps",
     kImages},
    {"n1 ci8 co8 4x3x5 k1x3x3 s1x2x2 p0x1x1 tf32", Kind::streamed, Source::global, "slices of one image", kImages},
    {"n1 ci24 co16 3x9x16 k3 s2 p1 op1 tf32", Kind::streamed, Source::rows, "the same in fp32", kSixWarps},
    {"n1 ci8 co24 3x7x9 k3 s2 p1 g2 f32", Kind::streamed, Source::ranges, "the same, ranges in parts", kSixWarps},
    {"n2 ci8 co8 3x4x4 k2 s2 f16", Kind::streamed, Source::whole_planes, "the same, whole planes", kImages | kSixWarps},
    {"n1 ci72 co16 3x5x16 k3 p1 bf16", Kind::gathered, Source::whole_rows, "the same, whole rows", kSixWarps},
    {"n3 ci24 co16 2x4x4 k4 s2 p1 bf16", Kind::gathered, Source::whole_planes, "the same, whole planes, images",
     kImages | kInterleaved | kSixWarps},
    {"n2 ci8 co16 4x5x16 k4 s2 p1 tf32", Kind::gathered, Source::rows, "the same, slices that stay",
     kRetained | kSixWarps},
    {"n1 ci24 co1 3x9x16 k4 s2 p1 bf16 ndhwc", Kind::streamed, Source::rows, "one channel, which is a plane"},
    {"n1 ci16 co1 3x9x13 k3 s2 p1 tf32 ndhwc", Kind::streamed, Source::ranges, "the same, ranges"},
    {"n1 ci40 co1 3x9x16 k4 s2 p1 f16 ndhwc", Kind::gathered, Source::rows, "the same, gathered"},
    {"n1 ci8 co9 2x9x24 k3x3x5 s1x2x3 p0x1x2 op0x1x2 f16", Kind::streamed, Source::rows,
     "rows that begin anywhere in 16 bytes"},
    {"n1 ci8 co8 2x3x200 k3x3x5 s1x1x2 p1x1x2 op0x0x1 bf16", Kind::streamed, Source::rows, "rows that are cut", kCut},
    {"n1 ci8 co8 2x3x200 k3x3x4 s2 p1 tf32", Kind::streamed, Source::rows, "the same in fp32", kCut},
    {"n2 ci8 co8 3x4x4 k2 s2 f16", Kind::streamed, Source::whole_planes, "input planes of whole planes", kImages},
    {"n3 ci8 co40 3x4x4 k4 s2 p1 tf32", Kind::streamed, Source::whole_planes, "the same in fp32", kImages},
    {"n1 ci8 co8 3x4x5 k3 s2 p1 tf32", Kind::streamed, Source::ranges, "input planes of ranges"},
    {"n1 ci8 co40 3x20x13 k3 s2 p1 bf16", Kind::streamed, Source::ranges, "the same in 16 bits, several tiles"},
    {"n3 ci16 co9 2x3x5 k3x3x4 s2 p1 f16", Kind::streamed, Source::ranges, "the same, images", kImages},
    {"n1 ci8 co24 3x7x9 k3 s2 p1 g2 f32", Kind::streamed, Source::ranges, "the same, fp32 in parts, groups"},
    {"n1 ci8 co8 2x3x201 k3x3x4 s2 p1 tf32", Kind::streamed, Source::global,
     "input planes from global memory, rows that are cut", kCut},
    {"n2 ci16 co40 4x4x5 k3x4x3 s2 p1 bf16 ndhwc", Kind::streamed, Source::swizzled, "input planes by TMA", kImages},
    {"n1 ci24 co16 3x4x5 k3 s2x3x2 p1 g2 tf32 ndhwc", Kind::streamed, Source::swizzled, "the same, groups"},
    {"n1 ci16 co64 5x9x9 k5x3x5 s2 p2x1x0 bf16 ndhwc", Kind::streamed, Source::swizzled,
     "the same, 128 bytes of channels"},
    {"n1 ci8 co8 3x4x5 k3 s2x9x2 p1 tf32 ndhwc", Kind::streamed, Source::global, "a stride that TMA does not take"},
    {"n1 ci8 co16 4x4x4 k1 s2 op1 tf32", Kind::streamed, Source::whole_planes, "input planes that nothing reads"},
    {"n1 ci8 co16 5x4x9 k2x1x2 s3x2x3 p1x0x1 bf16 ndhwc", Kind::streamed, Source::swizzled, "the same by TMA"},
    {"n1 ci8 co24 3x7x16 k3x4x3 s2 p1 op1x0x1 f32", Kind::streamed, Source::rows, "fp32 in parts, in passes"},
    {"n1 ci8 co24 3x4x5 k3 s2 p1 f32 ndhwc", Kind::streamed, Source::core_matrices,
     "the same, core matrices of input planes"},
    {"n1 ci8 co8 3x4x5 k3 s2 p1 op1 tf32", Kind::mma, Source::global, "mma.sync"},
    {"n1 ci16 co9 4x4x5 k3 s2 p1 d2 bf16 ndhwc", Kind::mma, Source::global, "mma.sync, dilation"},
    {"n1 ci72 co16 3x5x16 k3 p1 bf16", Kind::gathered, Source::rows, "gathered, stride 1", kCut},
    {"n1 ci72 co16 3x5x16 k3 p1 bf16", Kind::gathered, Source::whole_rows, "the same, whole rows"},
    {"n1 ci72 co16 3x6x16 k3 s2 p1 op1 bf16", Kind::gathered, Source::rows, "gathered, input planes of rows"},
    {"n1 ci20 co8 3x6x16 k3 s2 p1 tf32", Kind::gathered, Source::ranges, "gathered, ranges"},
    {"n2 ci20 co40 4x9x13 k3 s2 p1 bf16", Kind::gathered, Source::ranges, "the same in 16 bits, slices that stay",
     kRetained},
    {"n1 ci8 co8 2x5x49 k3 s1x2x2 p1 tf32", Kind::gathered, Source::global, "from global memory, rows that are cut",
     kCut},
    {"n2 ci8 co16 4x5x16 k4 s2 p1 tf32", Kind::gathered, Source::rows, "gathered, slices that stay", kRetained},
    {"n2 ci16 co32 4x5x6 k3 s2 p1 d1x1x2 f16 ndhwc", Kind::gathered, Source::swizzled, "gathered, TMA"},
    {"n2 ci3 co4 5x5x5 k1 p2 tf32 ndhwc", Kind::gathered, Source::swizzled, "rows longer than what taps reach",
     kImages},
    {"n3 ci16 co32 4x5x6 k5 s2 p2 bf16 ndhwc", Kind::gathered, Source::swizzled, "the same, images that stay",
     kImages | kRetained},
    {"n3 ci24 co16 3x6x8 k4 s2 p1 bf16 ndhwc", Kind::gathered, Source::swizzled, "images side by side in each row",
     kImages | kInterleaved},
    {"n3 ci24 co8 2x4x4 k4 s2 p1 tf32", Kind::gathered, Source::whole_planes, "the same, whole planes",
     kImages | kInterleaved},
    {"n1 ci8 co8 5x4x16 k2x3x3 s3x1x1 p1x1x1 op1x0x0 tf32", Kind::gathered, Source::whole_rows,
     "slices that nothing reads"},
};

/// The best config of a case.
Tiling tiling_of(const Problem& problem, const Case& one) {
    const Engine engine = one.kind == Kind::mma ? Engine::mma : Engine::wgmma;
    const Form form = one.kind == Kind::gathered ? Form::gathered : Form::streamed;
    Tiling tiling{all_tables(problem, engine, form).front(), {}};
    each_config(problem, tiling.tables, small_hopper(), engine, [&](const Config& config) {
        const double least = tiling.config.schedule.clocks;
        if (config.input.source != one.source || traits_of(config, tiling.tables) != one.traits) return;
        if (least <= 0 || config.schedule.clocks < least) tiling.config = config;
    });
    return tiling;
}

class BwdDataEmulated : public ::testing::TestWithParam<size_t> {};

TEST_P(BwdDataEmulated, IsExactOnIntegers) {
    EmulatedTilings emulated;
    for (const Case& one : testing::program(kCases, GetParam())) {
        const Problem problem = Problem::parse(std::string(one.problem) + " bwd_data");
        const Tiling tiling = tiling_of(problem, one);
        ASSERT_GT(tiling.config.schedule.clocks, 0) << one.problem << ": no such config";
        emulated.add(problem, tiling, one.why);
    }
    emulated.expect_exact();
}

INSTANTIATE_TEST_SUITE_P(All, BwdDataEmulated, ::testing::Range<size_t>(0, testing::programs(kCases)));

/// Some of the problem file, each in another mode, with the config that they get; TCONV3D_TEST_EVERY=1 takes them all.
class BwdDataEmulatedFile : public ::testing::TestWithParam<Kind> {};

TEST_P(BwdDataEmulatedFile, IsExactOnIntegers) {
    constexpr double kMostFlops = 2e7;
    const Engine engine = GetParam() == Kind::mma ? Engine::mma : Engine::wgmma;
    const Form form = GetParam() == Kind::gathered ? Form::gathered : Form::streamed;
    const auto answer = GetParam() == Kind::mma  ? answer_mma
                        : form == Form::gathered ? answer_gathered
                                                 : answer_streamed;
    const std::vector<Problem> problems = testing::listed_problems();
    size_t sample = static_cast<size_t>(GetParam());
    EmulatedTilings emulated;
    for (size_t i = sample; i < problems.size(); i += 3 * testing::sampled_every(), ++sample) {
        const std::vector<Problem> modes = testing::modes(problems[i]);
        Problem problem = modes[sample % modes.size()];
        problem.direction = Direction::bwd_data;
        const bool small = problem.batch > 0 && problem.flops() < kMostFlops;
        if (!small || !answer({problem, {}, testing::kHopper}).accepts()) continue;
        const Tiling tiling = best_tilings(problem, small_hopper(), engine, form, 1).front();
        emulated.add(problem, tiling);
    }
    emulated.expect_exact();
}

INSTANTIATE_TEST_SUITE_P(All, BwdDataEmulatedFile, ::testing::Values(Kind::streamed, Kind::gathered, Kind::mma));

} // namespace
} // namespace tconv3d::cuda::tensorcore
