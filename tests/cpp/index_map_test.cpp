// The index map of every direction against the definition: src i, tap j and dst o meet where o = stride·i − padding +
// j·dilation.
#include "core/index_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "problem_file.hpp"

namespace tconv3d {
namespace {

using Triple = std::array<int64_t, 3>; // output, tap, input of the direction

Problem with_direction(const Problem& problem, Direction direction) {
    Problem changed = problem;
    changed.direction = direction;
    return changed;
}

/// A problem that has the same parameters along each dimension, or none when dst would be empty.
void add_cube(std::vector<Problem>& list, int64_t src, int64_t k, int64_t s, int64_t d, int64_t p, int64_t op) {
    Problem problem;
    problem.src = {src, src, src};
    problem.kernel = {k, k, k};
    problem.stride = {s, s, s};
    problem.dilation = {d, d, d};
    problem.padding = {p, p, p};
    problem.output_padding = {op, op, op};
    if (problem.dst()[0] >= 1) list.push_back(problem);
}

std::vector<Problem> small_problems() {
    std::vector<Problem> list;
    for (int64_t src : {1, 2, 5})
        for (int64_t k = 1; k <= 5; ++k)
            for (int64_t s = 1; s <= 5; ++s)
                for (int64_t d = 1; d <= 4; ++d)
                    for (int64_t p = 0; p <= 6; ++p)
                        for (int64_t op = 0; op < std::max(s, d); ++op) add_cube(list, src, k, s, d, p, op);
    return list;
}

std::vector<Problem> random_problems() {
    std::mt19937 random(42);
    const auto next = [&](int64_t first, int64_t last) {
        return std::uniform_int_distribution<int64_t>(first, last)(random);
    };
    std::vector<Problem> list;
    while (list.size() < 500) {
        const int64_t s = next(1, 12), d = next(1, 9);
        add_cube(list, next(1, 20), next(1, 9), s, d, next(0, 25), next(0, std::max(s, d) - 1));
    }
    return list;
}

/// Calls body(problem, axis, dimension) for every direction of many problems.
template <typename Body>
void for_many_axes(const Body& body) {
    std::vector<Problem> problems = testing::listed_problems();
    const size_t listed = problems.size();
    for (const Problem& problem : small_problems()) problems.push_back(problem);
    for (const Problem& problem : random_problems()) problems.push_back(problem);
    for (size_t i = 0; i < problems.size(); ++i)
        for (const Direction direction : {Direction::fwd, Direction::bwd_data, Direction::bwd_weight}) {
            const Problem problem = with_direction(problems[i], direction);
            SCOPED_TRACE(problem.str());
            const IndexMap map(problem);
            // The dimensions of a cube are alike.
            for (size_t dim = 0; dim < (i < listed ? 3u : 1u); ++dim) body(problem, map.axes[dim], dim);
            if (::testing::Test::HasFatalFailure()) return;
        }
}

std::set<Triple> triples_by_definition(const Problem& problem, size_t dim) {
    std::set<Triple> triples;
    for (int64_t i = 0; i < problem.src[dim]; ++i)
        for (int64_t tap = 0; tap < problem.kernel[dim]; ++tap) {
            const int64_t o = problem.stride[dim] * i - problem.padding[dim] + tap * problem.dilation[dim];
            if (o < 0 || o >= problem.dst()[dim]) continue;
            triples.insert(problem.direction == Direction::fwd ? Triple{o, tap, i} : Triple{i, tap, o});
        }
    return triples;
}

/// Those of the axis, which must not name one twice and must agree with itself on which inputs there are.
std::set<Triple> triples_of(const Axis& axis) {
    std::set<Triple> triples;
    for (size_t phase = 0; phase < axis.phases.size(); ++phase)
        for (int64_t q = 0; q < axis.phases[phase].count; ++q)
            for (const AxisTap& tap : axis.phases[phase].taps) {
                const int64_t output = axis.output(static_cast<int64_t>(phase), q);
                const int64_t position = q + tap.shift, input = axis.input(tap.plane, position);
                const bool exists = input >= 0 && input < axis.in_extent;
                EXPECT_EQ(position >= 0 && position < axis.plane_extent(tap.plane), exists);
                if (!exists) continue;
                EXPECT_TRUE(triples.insert({output, tap.tap, input}).second);
            }
    return triples;
}

TEST(IndexMap, MeetsExactlyTheTriplesOfTheDefinition) {
    for_many_axes([](const Problem& problem, const Axis& axis, size_t dim) {
        ASSERT_EQ(triples_of(axis), triples_by_definition(problem, dim)) << "dimension " << dim;
    });
}

TEST(IndexMap, HasTheExtentsOfTheDirection) {
    for_many_axes([](const Problem& problem, const Axis& axis, size_t dim) {
        const bool fwd = problem.direction == Direction::fwd;
        const int64_t src = problem.src[dim], dst = problem.dst()[dim];
        ASSERT_EQ(axis.in_extent, fwd ? src : dst);
        ASSERT_EQ(axis.out_extent, fwd ? dst : src);
        ASSERT_EQ(axis.in_stride, fwd ? 1 : problem.stride[dim]);
        ASSERT_EQ(axis.out_stride, fwd ? problem.stride[dim] : 1);
    });
}

TEST(IndexMap, EveryOutputIsInOnePhase) {
    for_many_axes([](const Problem&, const Axis& axis, size_t) {
        ASSERT_EQ(static_cast<int64_t>(axis.phases.size()), axis.out_stride);
        std::vector<int64_t> outputs;
        for (size_t phase = 0; phase < axis.phases.size(); ++phase) {
            ASSERT_LE(axis.phases[phase].count, axis.q_count());
            for (int64_t q = 0; q < axis.phases[phase].count; ++q)
                outputs.push_back(axis.output(static_cast<int64_t>(phase), q));
        }
        std::vector<int64_t> all(static_cast<size_t>(axis.out_extent));
        std::iota(all.begin(), all.end(), 0);
        std::sort(outputs.begin(), outputs.end());
        ASSERT_EQ(outputs, all);
    });
}

TEST(IndexMap, EveryTapIsInOnePhaseInRisingOrder) {
    for_many_axes([](const Problem& problem, const Axis& axis, size_t dim) {
        std::vector<int64_t> taps;
        for (const AxisPhase& phase : axis.phases)
            for (size_t i = 0; i < phase.taps.size(); ++i) {
                taps.push_back(phase.taps[i].tap);
                if (i == 0) continue;
                const AxisTap &before = phase.taps[i - 1], &tap = phase.taps[i];
                ASSERT_LT(before.tap, tap.tap);
                if (problem.direction != Direction::fwd) continue;
                ASSERT_GT(before.shift, tap.shift);
            }
        std::vector<int64_t> all(static_cast<size_t>(problem.kernel[dim]));
        std::iota(all.begin(), all.end(), 0);
        std::sort(taps.begin(), taps.end());
        ASSERT_EQ(taps, all);
    });
}

TEST(IndexMap, ListsThePlanesThatAreRead) {
    for_many_axes([](const Problem&, const Axis& axis, size_t) {
        std::set<int64_t> read;
        for (const AxisPhase& phase : axis.phases)
            for (const AxisTap& tap : phase.taps) {
                ASSERT_GE(tap.plane, 0);
                ASSERT_LT(tap.plane, axis.in_stride);
                if (phase.count > 0) read.insert(tap.plane);
            }
        ASSERT_EQ(axis.planes, std::vector<int64_t>(read.begin(), read.end()));
        for (size_t i = 0; i < axis.planes.size(); ++i)
            ASSERT_EQ(axis.plane_index(axis.planes[i]), static_cast<int64_t>(i));
        int64_t elements = 0;
        for (int64_t plane = 0; plane < axis.in_stride; ++plane) elements += axis.plane_extent(plane);
        ASSERT_EQ(elements, axis.in_extent);
    });
}

TEST(IndexMap, BoundsTheShifts) {
    for_many_axes([](const Problem&, const Axis& axis, size_t) {
        std::set<int64_t> used, all;
        for (const AxisPhase& phase : axis.phases)
            for (const AxisTap& tap : phase.taps) {
                all.insert(tap.shift);
                if (phase.count > 0) used.insert(tap.shift);
            }
        ASSERT_EQ(axis.shift_min, used.empty() ? 0 : *used.begin());
        ASSERT_EQ(axis.shift_max, used.empty() ? 0 : *used.rbegin());
        ASSERT_EQ(axis.spread(), axis.shift_max - axis.shift_min);
        ASSERT_EQ(axis.all_shifts(), std::pair(*all.begin(), *all.rbegin()));
    });
}

TEST(IndexMap, BwdDataMirrorsFwd) {
    for_many_axes([](const Problem& problem, const Axis& axis, size_t dim) {
        if (problem.direction != Direction::fwd) return;
        const IndexMap mirrored(with_direction(problem, Direction::bwd_data));
        const Axis& bwd = mirrored.axes[dim];
        for (size_t phase = 0; phase < axis.phases.size(); ++phase) {
            ASSERT_EQ(axis.phases[phase].count, bwd.plane_extent(static_cast<int64_t>(phase)));
            for (const AxisTap& tap : axis.phases[phase].taps) {
                const AxisTap& met = bwd.phases[0].taps[static_cast<size_t>(tap.tap)];
                ASSERT_EQ(met.plane, static_cast<int64_t>(phase));
                ASSERT_EQ(met.shift, -tap.shift);
            }
        }
    });
}

std::vector<Triple> taps_of(const AxisPhase& phase) {
    std::vector<Triple> taps;
    for (const AxisTap& tap : phase.taps) taps.push_back({tap.tap, tap.plane, tap.shift});
    return taps;
}

TEST(IndexMap, HasTheWorkedExampleOfTheMathematics) {
    const Problem problem = Problem::parse("ci1 co1 4x4x4 k3 s2 p1 op1");
    const IndexMap fwd(problem);
    EXPECT_EQ(fwd.phases(), 8);
    EXPECT_EQ(fwd.planes(), 1);
    EXPECT_EQ(taps_of(fwd.axes[2].phases[0]), (std::vector<Triple>{{1, 0, 0}}));
    EXPECT_EQ(taps_of(fwd.axes[2].phases[1]), (std::vector<Triple>{{0, 0, 1}, {2, 0, 0}}));
    const IndexMap bwd(with_direction(problem, Direction::bwd_data));
    EXPECT_EQ(bwd.phases(), 1);
    EXPECT_EQ(bwd.planes(), 8);
    EXPECT_EQ(taps_of(bwd.axes[2].phases[0]), (std::vector<Triple>{{0, 1, -1}, {1, 0, 0}, {2, 1, 0}}));
}

TEST(IndexMap, LeavesPhasesWithoutTapsWhenStrideAndDilationShareAFactor) {
    const IndexMap map(Problem::parse("ci1 co1 4x4x4 k3 s2 p1 d2"));
    EXPECT_TRUE(map.axes[1].phases[0].taps.empty());
    EXPECT_EQ(taps_of(map.axes[1].phases[1]), (std::vector<Triple>{{0, 0, 1}, {1, 0, 0}, {2, 0, -1}}));
}

/// The sanitizer of undefined behaviour finds sums that overflow.
TEST(IndexMap, HoldsForTheLargestParameters) {
    constexpr int64_t kLarge = int64_t{1} << 60;
    Problem problem;
    problem.kernel[0] = 2;
    problem.dilation[0] = 2 * kLarge;
    problem.padding[0] = kLarge;
    problem.direction = Direction::bwd_data;
    for (const int64_t stride : {3 * kLarge, int64_t{9223372036854775807}}) {
        problem.stride[0] = stride;
        ASSERT_NO_THROW(problem.validate());
        const IndexMap map(problem);
        const Axis& axis = map.axes[0];
        EXPECT_EQ(taps_of(axis.phases[0]), (std::vector<Triple>{{0, stride - kLarge, -1}, {1, kLarge, 0}}));
        for (const int64_t plane : axis.planes) EXPECT_EQ(axis.plane_extent(plane), 0);
        EXPECT_EQ(axis.plane_extent(0), 1);
    }
    problem.direction = Direction::fwd;
    problem.stride[0] = 4;
    const IndexMap fwd(problem);
    EXPECT_EQ(fwd.axes[0].q_count(), 1);
    EXPECT_EQ(taps_of(fwd.axes[0].phases[0]), (std::vector<Triple>{{0, 0, kLarge / 4}, {1, 0, -kLarge / 4}}));
}

} // namespace
} // namespace tconv3d
