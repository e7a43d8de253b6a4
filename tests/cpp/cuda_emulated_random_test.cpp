// Tensor-core kernels on the host, without a GPU: drawn problems, each with a drawn config out of all that fit.
#include <gtest/gtest.h>

#include <optional>

#include "cuda/tensorcore/gathered/tiles.hpp"
#include "drawn_problem.hpp"
#include "emulated_tensorcore.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::EmulatedTilings;
using testing::small_hopper;

using testing::Random;

/// One of all configs, each as likely as the others; nothing where the form takes none.
std::optional<Tiling> drawn_tiling(Random& random, const Problem& problem, Engine engine, Form form, Sizes sizes) {
    std::optional<Tiling> drawn;
    uint32_t seen = 0;
    for (const TapTables& tables : all_tables(problem, engine, form)) {
        if (form == Form::gathered && !reject_gathered(problem, tables).empty()) continue;
        const auto keep = [&](const Config& config) {
            if (random() % ++seen == 0) drawn = Tiling{tables, config};
        };
        each_config(problem, tables, small_hopper(), engine, keep, sizes);
    }
    return drawn;
}

/// TCONV3D_TEST_EVERY=1 takes many more, TCONV3D_TEST_SEED others.
TEST(TensorCoreEmulatedRandom, IsExactOnIntegers) {
    constexpr struct {
        Engine engine;
        Form form;
    } kKinds[] = {{Engine::wgmma, Form::streamed}, {Engine::wgmma, Form::gathered}, {Engine::mma, Form::streamed}};
    const size_t wanted = 96 / testing::sampled_every();
    Random random(testing::given_seed());
    EmulatedTilings emulated;
    for (size_t ran = 0; ran < wanted;) {
        const Direction direction = random() % 2 == 0 ? Direction::fwd : Direction::bwd_data;
        const std::optional<Problem> problem = testing::drawn_problem(random, direction);
        if (!problem) continue;
        const auto& [engine, form] = kKinds[random() % std::size(kKinds)];
        const Sizes sizes = random() % 3 == 0 ? Sizes::any : Sizes::one;
        const std::optional<Tiling> tiling = drawn_tiling(random, *problem, engine, form, sizes);
        if (!tiling) continue;
        emulated.add(*problem, *tiling);
        ++ran;
    }
    emulated.expect_exact();
}

/// A tile of blocks may have fewer voxels than its products have rows: these read nothing behind the last stage.
TEST(TensorCoreEmulatedBlocks, ReadNothingBehindTheirVoxels) {
    const Problem problem = Problem::parse("n2 ci16 co13 4x5x12 k4x2x3 s2 p0x2x0 op1 d1x2x1 bf16 bwd_data");
    EmulatedTilings emulated;
    for (const Engine engine : {Engine::wgmma, Engine::mma}) {
        const TapTables tables = all_tables(problem, engine, Form::streamed).front();
        std::optional<Tiling> tiling;
        int64_t most = 0; // products without voxels
        each_config(problem, tables, small_hopper(), engine, [&](const Config& config) {
            const int64_t blocks = config.tile.images * config.plane.blocks_h * config.plane.blocks_w;
            const int64_t spare = config.products.m_tiles * config.products.warpgroups - blocks;
            if (blocks == 0 || spare <= most) return;
            most = spare;
            tiling = Tiling{tables, config};
        });
        ASSERT_TRUE(tiling);
        emulated.add(problem, *tiling);
    }
    emulated.expect_exact();
}

/// Of ranges, the last bytes of a tensor come one by one; the stage gets other ranges when the CTA has another item.
TEST(TensorCoreEmulatedRanges, FenceWhatComesOneByOne) {
    const Problem problem = Problem::parse("n3 ci18 co33 5x9x9 k3x1x4 s2x1x2 p2 op0x0x1 d2x2x1 bf16 bwd_data");
    const TapTables tables = all_tables(problem, Engine::wgmma, Form::streamed).front();
    std::optional<Tiling> tiling;
    each_config(problem, tables, small_hopper(), Engine::wgmma, [&](const Config& config) {
        if (config.input.source != Source::ranges || config.plane.blocks_h != 2 || config.tile.channels > 8) return;
        if (!tiling) tiling = Tiling{tables, config};
    });
    ASSERT_TRUE(tiling);
    EmulatedTilings emulated;
    emulated.add(problem, *tiling);
    emulated.expect_exact();
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
