#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/reduction/reduction.hpp"
#include "cuda/splits/add_splits.hpp"
#include "drawn_problem.hpp"
#include "emulated.hpp"

/// Kernels of bwd_weight on the host, many problems in one program: each has a namespace of its own.
namespace tconv3d::testing {

/// A problem with the tile that its products get.
template <typename Tile>
struct Tiled {
    Problem problem;
    Tile tile;
};

/// How the products of a problem are launched.
struct Products {
    cuda::KernelRequest request;
    std::string arguments; ///< source of kProductsArguments, of their type `Arguments` and of place()
    int64_t items;         ///< CTAs, those of all splits together
    int64_t splits;
    bool with_bias;
    bool long_src; ///< whether src has more bits than tf32, else grad_dst, where fp32 is split
};

/// The case of a number, in a namespace of its own: is_exact() of tests/emulator/bwd_weight_case runs it.
inline std::string case_source(const Problem& problem, const Products& products, cuda::Device device, size_t number) {
    device.multiprocessors = 1;
    const std::string digits = std::to_string(number);
    return "namespace case_" + digits + " {\n" + kernel_source("products", products.request, "PRODUCTS", digits) +
           "#undef __shared__\n#define __shared__ static\n" + // of a CTA at a time
           kernel_source("bias", cuda::reduction_bias_request(problem), "BIAS", digits) +
           kernel_source("add", cuda::add_splits_request(problem), "ADD_SPLITS", digits) +
           "#undef __shared__\n#define __shared__\n" +
           given_source(problem, cuda::reduction_stride(problem), cuda::reduction_dilation(problem)) +
           products.arguments + arguments_source(cuda::reduction_bias_arguments(problem, device), "kBiasArguments") +
           arguments_source(cuda::reduction_split_sums(problem, products.splits, device), "kAddArguments") +
           constant("kSharedBytes", products.request.dynamic_shared_bytes) + constant("kItems", products.items) +
           constant("kBiasCtas", cuda::reduction_bias_ctas(problem, device)) +
           constant("kWithBias", products.with_bias) + constant("kLongSrc", products.long_src) +
           constant("kParts", cuda::reduction_parts(problem)) + "#include \"bwd_weight_case/is_exact.hpp\"\n}\n";
}

/// Runs all cases in one program, since most of the time of one goes into headers. `source_of(problem, tile, number)`
/// is a case's source; the emulator lets the family's headers be included again.
template <typename Tile, typename SourceOf>
void expect_exact(const Emulator& emulator, const std::vector<Tiled<Tile>>& cases, const SourceOf& source_of) {
    emulator.allow_again("finish/thread_sums.cuh");
    std::string sources, calls;
    for (size_t i = 0; i < cases.size(); ++i) {
        const auto& [problem, tile] = cases[i];
        sources += source_of(problem, tile, i);
        calls += "    if (!case_" + std::to_string(i) + "::is_exact()) wrong += std::printf(\"" + problem.str() + ", " +
                 tile.str() + "\\n\");\n";
    }
    emulator.write("cases.cpp", "#include \"direct.hpp\"\n#undef __shared__\n#define __shared__\n"
                                "#include \"shared/reduction.cuh\"\n#include \"shared/outer.cuh\"\n"
                                "#include \"shared/sweep.cuh\"\n"
                                "using namespace tconv3d::cuda;\n" +
                                    sources + "int main() {\n    int wrong = 0;\n" + calls +
                                    "    return wrong == 0 ? 0 : 1;\n}\n");
    ASSERT_TRUE(emulator.compile("cases.cpp"));
    EXPECT_TRUE(emulator.execute()) << "the problems above are wrong";
}

/// Some of the listed problems, each in one mode and with the first of `tiles_of(problem)`, where it has any and the
/// products, needed or not, are few enough: `work_of(problem, tile)` counts them.
template <typename Tile, typename TilesOf, typename WorkOf>
std::vector<Tiled<Tile>> some_listed_problems(const TilesOf& tiles_of, const WorkOf& work_of) {
    constexpr int64_t kMostWork = 1 << 20;
    const std::vector<Problem> listed = listed_problems();
    std::vector<Tiled<Tile>> cases;
    size_t turn = 0;
    for (size_t i = 0; i < listed.size(); i += std::max<size_t>(sampled_every() / 2, 1)) {
        Problem problem = modes(listed[i])[turn++ % 8];
        problem.direction = Direction::bwd_weight;
        const std::vector<Tile> tiles = tiles_of(problem);
        if (!tiles.empty() && work_of(problem, tiles.front()) < kMostWork) cases.push_back({problem, tiles.front()});
    }
    EXPECT_GT(cases.size(), 10U);
    return cases;
}

/// Calls `run` with drawn problems, some at a time, each with one of `tiles_of(problem)`, which has none where the
/// family does not take it. TCONV3D_TEST_EVERY=1 takes many more, TCONV3D_TEST_SEED others.
template <typename Tile, typename TilesOf, typename Run>
void for_drawn_problems(const TilesOf& tiles_of, const Run& run) {
    constexpr size_t kAtOnce = 16;
    Random random(given_seed());
    std::vector<Tiled<Tile>> cases;
    for (size_t left = 96 / sampled_every(); left > 0;) {
        const std::optional<Problem> problem = drawn_problem(random, Direction::bwd_weight);
        const std::vector<Tile> tiles = problem ? tiles_of(*problem) : std::vector<Tile>();
        if (tiles.empty()) continue;
        cases.push_back({*problem, tiles[random() % tiles.size()]});
        if (--left > 0 && cases.size() < kAtOnce) continue;
        run(cases);
        cases.clear();
    }
}

} // namespace tconv3d::testing
