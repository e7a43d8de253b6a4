#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>

#include "problem_file.hpp"
#include "tconv3d/error.hpp"

/// Problems that nobody chose, for kernels that run on the host: the same ones for the same seed.
namespace tconv3d::testing {

using Random = std::mt19937;

/// TCONV3D_TEST_SEED, or always the same.
inline uint32_t given_seed() {
    const char* given = std::getenv("TCONV3D_TEST_SEED");
    return given == nullptr ? 2026 : static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
}

inline int64_t draw(Random& random, int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint32_t>(most - least + 1));
}

/// A small one in any mode and layout that tensor cores take; nothing where the drawn values do not fit together.
inline std::optional<Problem> drawn_problem(Random& random, Direction direction) {
    constexpr double kMostFlops = 1e7;
    Problem problem;
    problem.batch = draw(random, 1, 3);
    problem.groups = draw(random, 0, 2) == 0 ? draw(random, 2, 3) : 1;
    problem.src_channels = problem.groups * draw(random, 1, 36);
    problem.dst_channels = problem.groups * draw(random, 1, 36);
    problem.src = {draw(random, 1, 5), draw(random, 1, 9), draw(random, 1, 24)};
    for (size_t i = 0; i < 3; ++i) {
        problem.kernel[i] = draw(random, 1, 5);
        problem.stride[i] = draw(random, 0, 2) == 0 ? draw(random, 3, 6) : draw(random, 1, 2);
        problem.dilation[i] = draw(random, 0, 2) == 0 ? draw(random, 2, 4) : 1;
        problem.padding[i] = draw(random, 0, problem.dilation[i] * (problem.kernel[i] - 1) + 2);
        problem.output_padding[i] = draw(random, 0, problem.stride[i] - 1);
    }
    const std::vector<Problem> all = modes(problem);
    problem = all[random() % all.size()];
    problem.direction = direction;
    try {
        problem.validate();
    } catch (const Error&) {
        return std::nullopt;
    }
    return problem.flops() < kMostFlops ? std::optional<Problem>(problem) : std::nullopt;
}

} // namespace tconv3d::testing
