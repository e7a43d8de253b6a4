// Tensor-core kernels on the host, without a GPU: drawn problems, each with a drawn config out of all that fit.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "cuda/tensorcore/gathered/tiles.hpp"
#include "emulated_tensorcore.hpp"
#include "problem_file.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::EmulatedTiling;
using testing::small_hopper;

using Random = std::mt19937;

int64_t draw(Random& random, int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint32_t>(most - least + 1));
}

/// In any mode and layout, forwards or for the gradient of the input; nothing where the values do not fit together.
std::optional<Problem> drawn_problem(Random& random) {
    constexpr double kMostFlops = 1e7;
    Problem problem;
    problem.batch = draw(random, 1, 3);
    problem.groups = draw(random, 0, 4) == 0 ? 2 : 1;
    problem.src_channels = problem.groups * draw(random, 1, 36);
    problem.dst_channels = problem.groups * draw(random, 1, 36);
    problem.src = {draw(random, 1, 5), draw(random, 1, 9), draw(random, 1, 24)};
    for (size_t i = 0; i < 3; ++i) {
        problem.kernel[i] = draw(random, 1, 4);
        problem.stride[i] = draw(random, 1, 3);
        problem.padding[i] = draw(random, 0, problem.kernel[i]);
        problem.dilation[i] = draw(random, 0, 3) == 0 ? 2 : 1;
        problem.output_padding[i] = draw(random, 0, problem.stride[i] - 1);
    }
    const std::vector<Problem> modes = testing::modes(problem);
    problem = modes[random() % modes.size()];
    problem.direction = random() % 2 == 0 ? Direction::fwd : Direction::bwd_data;
    try {
        problem.validate();
    } catch (const Error&) {
        return std::nullopt;
    }
    return problem.flops() < kMostFlops ? std::optional<Problem>(problem) : std::nullopt;
}

/// One of all configs, each as likely as the others; nothing where the form takes none.
std::optional<Tiling> drawn_tiling(Random& random, const Problem& problem, Engine engine, Form form) {
    std::optional<Tiling> drawn;
    uint32_t seen = 0;
    for (const TapTables& tables : all_tables(problem, engine, form)) {
        if (form == Form::gathered && !reject_gathered(problem, tables).empty()) continue;
        each_config(problem, tables, small_hopper(), engine, [&](const Config& config) {
            if (random() % ++seen == 0) drawn = Tiling{tables, config};
        });
    }
    return drawn;
}

/// TCONV3D_TEST_EVERY=1 takes many more.
TEST(TensorCoreEmulatedRandom, IsExactOnIntegers) {
    constexpr struct {
        Engine engine;
        Form form;
    } kKinds[] = {{Engine::wgmma, Form::streamed}, {Engine::wgmma, Form::gathered}, {Engine::mma, Form::streamed}};
    const size_t wanted = 96 / testing::sampled_every();
    Random random(2026);
    for (size_t ran = 0; ran < wanted;) {
        const std::optional<Problem> problem = drawn_problem(random);
        if (!problem) continue;
        const auto& [engine, form] = kKinds[random() % std::size(kKinds)];
        const std::optional<Tiling> tiling = drawn_tiling(random, *problem, engine, form);
        if (!tiling) continue;
        const EmulatedTiling emulated(*problem, *tiling);
        ASSERT_TRUE(emulated.compile()) << problem->str() << ": " << tiling->name();
        EXPECT_TRUE(emulated.execute()) << problem->str() << ": " << tiling->name();
        ++ran;
    }
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
