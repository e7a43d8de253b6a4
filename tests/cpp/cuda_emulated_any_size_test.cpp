// Kernels for any size on the host, without a GPU: exact on small integers, whatever the extents.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "cuda/tensorcore/any_size.hpp"
#include "emulated_tensorcore.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::EmulatedTilings;
using testing::small_hopper;

struct Case {
    const char* problem;
    Engine engine;
    Form form;
    Source source;
    Store store;
    const char* why;
};

constexpr Case kCases[] = {
    {"n1 ci12 co8 3x5x16 k3 p1 tf32", Engine::wgmma, Form::streamed, Source::rows, Store::voxels, "rows of fp32"},
    {"n2 ci20 co12 3x4x24 k3x2x3 s2x1x2 tf32", Engine::wgmma, Form::streamed, Source::rows, Store::voxels,
     "phases side by side, images"},
    {"n1 ci16 co8 3x5x16 k3 p1 bf16", Engine::wgmma, Form::streamed, Source::rows, Store::quads, "rows of 16 bits"},
    {"n1 ci40 co8 2x6x40 k3x3x5 f16", Engine::wgmma, Form::streamed, Source::rows, Store::quads, "several k steps"},
    {"n2 ci16 co8 3x3x16 k3 bf16", Engine::wgmma, Form::streamed, Source::rows, Store::pairs, "two voxels at once"},
    {"n1 ci16 co8 2x2x248 k1x1x3 p0x0x1 f16", Engine::wgmma, Form::streamed, Source::rows, Store::quads, "long rows"},
    {"n2 ci9 co8 3x5x7 k3 p1 tf32", Engine::wgmma, Form::streamed, Source::ranges, Store::voxels, "odd rows"},
    {"n1 ci24 co20 3x5x9 k5x3x4 s2 p1 bf16", Engine::wgmma, Form::streamed, Source::ranges, Store::voxels,
     "odd rows of 16 bits, two phases"},
    {"n2 ci9 co8 3x5x7 k3 p1 tf32", Engine::wgmma, Form::streamed, Source::global, Store::voxels, "odd rows, cut"},
    {"n2 ci28 co40 2x5x8 k2 s2 g2 f32", Engine::wgmma, Form::streamed, Source::rows, Store::voxels,
     "fp32 in parts, groups"},
    {"n2 ci24 co16 2x4x5 k3 s2 p1 f32 ndhwc", Engine::wgmma, Form::streamed, Source::core_matrices, Store::channels,
     "fp32 in parts, channels last"},
    {"n3 ci120 co16 2x4x5 k3 p1 bf16 ndhwc", Engine::wgmma, Form::streamed, Source::swizzled, Store::channels,
     "positions from TMA, images"},
    {"n1 ci24 co72 2x4x5 k2 s2 bf16 ndhwc", Engine::wgmma, Form::streamed, Source::swizzled, Store::channels,
     "positions from TMA, phases"},
    {"n1 ci16 co16 4x7x9 k3 s2 p1 bf16 ndhwc bwd_data", Engine::wgmma, Form::streamed, Source::swizzled,
     Store::channels, "input planes"},
    {"n1 ci16 co16 3x5x16 k3 p1 bf16 bwd_data", Engine::wgmma, Form::streamed, Source::rows, Store::quads,
     "six warps that rearrange"},
    {"n2 ci12 co20 3x5x8 k3x4x5 s2 p1 f16 bwd_data", Engine::wgmma, Form::streamed, Source::ranges, Store::quads,
     "ranges that are taken apart"},
    {"n1 ci64 co20 3x5x7 k3 s1x2x3 p1 tf32 bwd_data", Engine::wgmma, Form::gathered, Source::ranges, Store::voxels,
     "the same, gathered"},
    {"n1 ci24 co70 3x5x16 k3 p1 tf32", Engine::wgmma, Form::gathered, Source::rows, Store::pairs,
     "gathered rows of even length"},
    {"n2 ci24 co70 3x5x7 k3 p1 tf32", Engine::wgmma, Form::gathered, Source::ranges, Store::voxels,
     "gathered rows of odd length"},
    {"n1 ci16 co64 3x4x8 k3 s2 p1 tf32", Engine::wgmma, Form::gathered, Source::rows, Store::voxels,
     "the same, whose phases are no aligned access"},
    {"n1 ci16 co64 2x3x7 k4 s2 p1 f16", Engine::wgmma, Form::gathered, Source::ranges, Store::voxels,
     "the same in 16 bits, aligned"},
    {"n1 ci16 co66 3x5x7 k3 p1 bf16", Engine::wgmma, Form::gathered, Source::global, Store::voxels,
     "outputs of 16 bits one by one"},
    {"n3 ci64 co66 3x5x7 k3 p1 bf16 ndhwc", Engine::wgmma, Form::gathered, Source::swizzled, Store::channels,
     "gathered positions from TMA"},
    {"n2 ci24 co20 3x5x7 k3 s2 p1 tf32", Engine::mma, Form::streamed, Source::global, Store::voxels, "mma.sync"},
};

/// The best config for any size with the source and the store of a case, of one image or of several.
std::optional<Tiling> tiling_of(const Case& one, const Problem& problem, bool several_images) {
    std::optional<Tiling> best;
    for (const TapTables& tables : all_tables(problem, one.engine, one.form)) {
        const auto keep = [&](const Config& config) {
            if (config.input.source != one.source || config.store.way != one.store) return;
            if ((config.tile.images > 1) != several_images) return;
            if (!best || config.schedule.clocks < best->config.schedule.clocks) best = Tiling{tables, config};
        };
        each_config(problem, tables, small_hopper(), one.engine, keep, Sizes::any);
    }
    return best;
}

class AnySizeEmulated : public ::testing::TestWithParam<size_t> {};

TEST_P(AnySizeEmulated, IsExactOnIntegers) {
    EmulatedTilings emulated;
    for (const Case& one : testing::program(kCases, GetParam())) {
        const Problem problem = Problem::parse(one.problem);
        const std::optional<Tiling> tiling = tiling_of(one, problem, false);
        ASSERT_TRUE(tiling) << problem.str() << ": no such config";
        emulated.add(problem, *tiling, one.why);
        if (const auto images = tiling_of(one, problem, true)) emulated.add(problem, *images, one.why);
    }
    emulated.expect_exact();
}

INSTANTIATE_TEST_SUITE_P(All, AnySizeEmulated, ::testing::Range<size_t>(0, testing::programs(kCases)));

/// The layer's own kernels: tiles do not fill their room, by far in small tensors, and even rows may be stored by
/// single voxels because odd ones must be.
TEST(AnySizeEmulatedLayers, AreExactOnIntegers) {
    EmulatedTilings emulated;
    bool stores_even_rows_by_voxels = false, has_room_for_twice_the_tile = false;
    for (const char* line : {"n2 ci9 co8 3x5x7 k3 p1 tf32", "n1 ci24 co20 3x5x16 k4 s2 p1 bf16",
                             "n1 ci24 co70 3x6x9 k3 p1 f16 ndhwc", "n2 ci12 co20 3x5x8 k3 s2 p1 bf16 bwd_data",
                             "n2 ci24 co64 3x6x10 k3 p1 bf16", "n1 ci16 co64 2x2x8 k3 p1 f16"}) {
        const Problem problem = Problem::parse(line);
        const std::vector<Tiling> tilings = any_size_tilings(problem, small_hopper(), Engine::wgmma);
        ASSERT_FALSE(tilings.empty()) << line;
        const Config& config = tilings.front().config;
        const bool even = problem.layout == Layout::ncdhw && problem.src[2] % 2 == 0;
        stores_even_rows_by_voxels |= config.gathered() && even && config.store.way == Store::voxels;
        has_room_for_twice_the_tile |=
            config.gathered() && config.products.m_tiles * config.products.columns > 2 * config.span();
        emulated.add(problem, tilings.front(), "the layer's kernels");
    }
    EXPECT_TRUE(stores_even_rows_by_voxels);
    EXPECT_TRUE(has_room_for_twice_the_tile);
    emulated.expect_exact();
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
