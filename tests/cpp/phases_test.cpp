#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tconv3d/phases.hpp"

namespace tconv3d {
namespace {

/// Calls body for many problems that differ in their first dimension only.
template <typename Body>
void for_many_problems(const Body& body) {
    Problem problem;
    for (int64_t src : {1, 2, 5})
        for (int64_t k = 1; k <= 5; ++k)
            for (int64_t s = 1; s <= 5; ++s)
                for (int64_t d = 1; d <= 4; ++d)
                    for (int64_t p = 0; p <= 6; ++p)
                        for (int64_t op = 0; op < std::max(s, d); ++op) {
                            problem.src[0] = src;
                            problem.kernel[0] = k;
                            problem.stride[0] = s;
                            problem.dilation[0] = d;
                            problem.padding[0] = p;
                            problem.output_padding[0] = op;
                            if (problem.dst()[0] >= 1) body(problem);
                        }
}

using Pairs = std::multiset<std::pair<int64_t, int64_t>>; // src index, tap

/// By output: the pairs that reach it, from o = s·i − p + j·d alone.
std::map<int64_t, Pairs> pairs_by_definition(const Problem& problem) {
    std::map<int64_t, Pairs> pairs;
    for (int64_t o = 0; o < problem.dst()[0]; ++o) pairs[o] = {};
    for (int64_t i = 0; i < problem.src[0]; ++i)
        for (int64_t tap = 0; tap < problem.kernel[0]; ++tap) {
            const int64_t o = problem.stride[0] * i - problem.padding[0] + tap * problem.dilation[0];
            if (o >= 0 && o < problem.dst()[0]) pairs[o].insert({i, tap});
        }
    return pairs;
}

std::map<int64_t, Pairs> pairs_by_phases(const Problem& problem) {
    const PhaseTable table(problem);
    const DimensionPhases& dim = table.dims[0];
    std::map<int64_t, Pairs> pairs;
    for (int64_t r = 0; r < dim.stride; ++r) {
        const Phase& phase = dim.phases[static_cast<size_t>(r)];
        for (int64_t q = phase.q_first; q < phase.q_first + phase.count; ++q) {
            Pairs& here = pairs[dim.output(r, q)];
            for (const Tap& tap : phase.taps) {
                const int64_t i = q + tap.delta;
                if (i >= 0 && i < problem.src[0]) here.insert({i, tap.tap});
            }
        }
    }
    return pairs;
}

TEST(PhaseTable, ReachesExactlyThePairsOfTheDefinition) {
    for_many_problems([](const Problem& problem) {
        ASSERT_EQ(pairs_by_phases(problem), pairs_by_definition(problem)) << problem.str();
    });
}

TEST(PhaseTable, StartsAtTheFirstOutputOfEachPhase) {
    for_many_problems([](const Problem& problem) {
        const PhaseTable table(problem);
        const DimensionPhases& dim = table.dims[0];
        ASSERT_EQ(dim.phases.size(), static_cast<size_t>(problem.stride[0]));
        int64_t outputs = 0;
        for (int64_t r = 0; r < dim.stride; ++r) {
            const Phase& phase = dim.phases[static_cast<size_t>(r)];
            ASSERT_GE(dim.output(r, phase.q_first), 0) << problem.str();
            ASSERT_LT(dim.output(r, phase.q_first - 1), 0) << problem.str();
            outputs += phase.count;
        }
        ASSERT_EQ(outputs, problem.dst()[0]) << problem.str();
    });
}

TEST(PhaseTable, TapsRiseAndDeltasFall) {
    for_many_problems([](const Problem& problem) {
        const PhaseTable table(problem);
        for (const Phase& phase : table.dims[0].phases)
            for (size_t t = 0; t < phase.taps.size(); ++t) {
                ASSERT_LE(phase.taps[t].delta, 0);
                if (t == 0) continue;
                ASSERT_LT(phase.taps[t - 1].tap, phase.taps[t].tap) << problem.str();
                ASSERT_GT(phase.taps[t - 1].delta, phase.taps[t].delta) << problem.str();
            }
    });
}

TEST(PhaseTable, LeavesPhasesWithoutTapsWhenStrideAndDilationShareAFactor) {
    const PhaseTable table(Problem::parse("ci1 co1 4x4x4 k3 s2 p1 d2"));
    EXPECT_EQ(table.dims[1].phases[0].taps.size(), 3u);
    EXPECT_TRUE(table.dims[1].phases[1].taps.empty());
}

TEST(Reach, MeetsTheOutputOfTheDefinition) {
    for_many_problems([](const Problem& problem) {
        const PhaseTable table(problem);
        for (int64_t tap = 0; tap < problem.kernel[0]; ++tap) {
            const Reach met = reach(table.dims[0], tap);
            ASSERT_GE(met.remainder, 0) << problem.str();
            ASSERT_LT(met.remainder, problem.stride[0]) << problem.str();
            for (int64_t i = 0; i < problem.src[0]; ++i)
                ASSERT_EQ(problem.stride[0] * (i + met.shift) + met.remainder,
                          problem.stride[0] * i - problem.padding[0] + tap * problem.dilation[0])
                    << problem.str();
        }
    });
}

} // namespace
} // namespace tconv3d
