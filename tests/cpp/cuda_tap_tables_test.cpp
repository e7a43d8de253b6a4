// The tables of the tensor-core kernels against the definition of a transposed convolution.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/tensorcore/tables.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::listed_problems;

constexpr RowPhases kBothRows[] = {RowPhases::together, RowPhases::apart};

constexpr Direction kCorrelations[] = {Direction::fwd, Direction::bwd_data};

/// The listed problems, in both directions that are correlations.
std::vector<Problem> listed_correlations() {
    std::vector<Problem> all;
    for (Problem problem : listed_problems())
        for (const Direction direction : kCorrelations) {
            problem.direction = direction;
            all.push_back(problem);
        }
    return all;
}

/// (output, tap, input) along a dimension, from the definition.
std::set<std::tuple<int64_t, int64_t, int64_t>> meetings(const Problem& problem, size_t dim) {
    std::set<std::tuple<int64_t, int64_t, int64_t>> found;
    const bool fwd = problem.direction == Direction::fwd;
    for (int64_t src = 0; src < problem.src[dim]; ++src)
        for (int64_t tap = 0; tap < problem.kernel[dim]; ++tap) {
            const int64_t dst = problem.stride[dim] * src - problem.padding[dim] + tap * problem.dilation[dim];
            if (dst >= 0 && dst < problem.dst()[dim]) found.insert({fwd ? dst : src, tap, fwd ? src : dst});
        }
    return found;
}

/// The same from the rings: while a slice passes, every slot takes the one shift that is congruent to its position less
/// the slot.
std::set<std::tuple<int64_t, int64_t, int64_t>> meetings_of_rings(const Problem& problem, const TapTables& tables) {
    std::set<std::tuple<int64_t, int64_t, int64_t>> found;
    const DepthTables& depth = tables.depth;
    const InputPlanes& planes = tables.inputs[0];
    for (int64_t slice = 0; slice < planes.elements(in_extents(problem)[0]); ++slice)
        for (size_t r = 0; r < depth.rings.size(); ++r)
            for (int64_t slot = 0; slot < depth.rings[r].length; ++slot) {
                const Ring& ring = depth.rings[r];
                const int64_t position = slice / depth.planes, plane = slice % depth.planes;
                int64_t shift = ring.shift_max;
                while (floor_div(position - shift, ring.length) * ring.length + slot != position - shift) --shift;
                EXPECT_GE(shift, ring.shift_min) << problem.str();
                const int64_t tap = depth.tap_at(static_cast<int64_t>(r), shift, plane);
                const int64_t output = out_stride(problem)[0] * (position - shift) + static_cast<int64_t>(r);
                if (tap < 0 || output < 0 || output >= out_extents(problem)[0]) continue;
                const int64_t input = planes.stride * position + planes.first[static_cast<size_t>(plane)];
                EXPECT_TRUE(found.insert({output, tap, input}).second) << problem.str();
            }
    return found;
}

TEST(TapTables, RingsMeetEveryTapAlongD) {
    for (const Problem& problem : listed_correlations())
        EXPECT_EQ(meetings_of_rings(problem, TapTables(problem)), meetings(problem, 0)) << problem.str();
}

/// In the gathered form, from the slices that the taps of each output slice read.
TEST(TapTables, OutputSlicesMeetEveryTapAlongD) {
    for (const Problem& problem : listed_correlations()) {
        const TapTables tables(problem, RowPhases::together, Form::gathered);
        const InputPlanes& planes = tables.inputs[0];
        std::set<std::tuple<int64_t, int64_t, int64_t>> found;
        for (int64_t q = 0; q < tables.q_count[0]; ++q)
            for (const DepthTap& tap : tables.depth.taps) {
                const int64_t output = out_stride(problem)[0] * q + tap.phase;
                const int64_t slice = (q + tap.shift) * tables.depth.planes + tap.plane;
                if (slice < 0 || slice >= planes.elements(in_extents(problem)[0])) continue;
                const int64_t input = planes.stride * (q + tap.shift) + planes.first[static_cast<size_t>(tap.plane)];
                if (output < out_extents(problem)[0]) found.insert({output, tap.tap, input});
            }
        EXPECT_EQ(found, meetings(problem, 0)) << problem.str();
    }
}

/// Adds the taps that a pass serves, for outputs whose phase along h is `first_row` or follows it.
void expect_taps_of_pass(const Problem& problem, const TapTables& tables, int64_t first_row, const Pass& pass,
                         std::set<std::pair<int64_t, int64_t>>& taps) {
    const Extents strides = out_stride(problem);
    const int64_t sign = problem.direction == Direction::fwd ? 1 : -1;
    const auto first_of = [&](size_t dim, int64_t place) {
        return tables.inputs[dim].first[static_cast<size_t>(place)];
    };
    for (const PlaneShift& shift : tables.plane.shifts)
        for (const PlaneTap& tap : shift.taps) {
            const int64_t tap_h = pass.tap_h + tap.tap_h, shift_h = pass.shift_h + shift.shift_h;
            const int64_t planes_w = tables.inputs[2].count(), plane = pass.plane + shift.plane;
            EXPECT_TRUE(taps.insert({tap_h, tap.tap_w}).second) << problem.str();
            // Tap j connects src i and dst o = stride · i - padding + j · dilation. For q = 0 the input is at
            // in_stride · shift + plane and the output at the phase.
            const int64_t phase_h = first_row + tap.phase / strides[2], phase_w = tap.phase % strides[2];
            EXPECT_EQ(tap_h * problem.dilation[1] - problem.padding[1],
                      sign * (phase_h - problem.stride[1] * shift_h) +
                          (sign < 0 ? 2 * phase_h + first_of(1, plane / planes_w) : 0));
            EXPECT_EQ(tap.tap_w * problem.dilation[2] - problem.padding[2],
                      sign * (phase_w - problem.stride[2] * shift.shift_w) +
                          (sign < 0 ? 2 * phase_w + first_of(2, plane % planes_w) : 0));
            EXPECT_GE(shift_h, tables.shift_min[1]) << problem.str();
            EXPECT_LE(shift_h, tables.shift_max[1]) << problem.str();
            EXPECT_GE(shift.shift_w, tables.shift_min[2]) << problem.str();
            EXPECT_LE(shift.shift_w, tables.shift_max[2]) << problem.str();
        }
}

TEST(TapTables, ShiftsServeEveryTapOfThePlaneOnce) {
    for (const Problem& problem : listed_correlations())
        for (const RowPhases rows : kBothRows) {
            const TapTables tables(problem, rows);
            std::set<std::pair<int64_t, int64_t>> taps;
            for (size_t set = 0; set < tables.plane.row_sets.size(); ++set) {
                const int64_t last = set + 1 < tables.plane.row_sets.size() ? tables.plane.row_sets[set + 1].first_pass
                                                                            : tables.plane.pass_count();
                for (int64_t pass = tables.plane.row_sets[set].first_pass; pass < last; ++pass)
                    expect_taps_of_pass(problem, tables, tables.plane.row_sets[set].phase,
                                        tables.plane.passes[static_cast<size_t>(pass)], taps);
            }
            EXPECT_EQ(static_cast<int64_t>(taps.size()), problem.kernel[1] * problem.kernel[2]) << problem.str();
        }
}

void expect_products_are_the_same_or_apart(const Problem& problem, const TapTables& tables) {
    std::set<std::pair<int64_t, int64_t>> products;
    for (const PlaneShift& shift : tables.plane.shifts) {
        size_t tap = 0;
        for (const Product& product : shift.products) {
            products.insert({product.first, product.first + product.count});
            for (int64_t i = 0; i < product.count; ++i, ++tap)
                EXPECT_EQ(tables.plane.accumulator[static_cast<size_t>(shift.taps.at(tap).phase)], product.first + i);
        }
        EXPECT_EQ(tap, shift.taps.size()) << problem.str();
    }
    int64_t end = 0;
    for (const auto& [first, last] : products) {
        EXPECT_EQ(first, end) << problem.str() << ": products overlap in part";
        end = last;
    }
    EXPECT_EQ(end, tables.plane.accumulators) << problem.str();
}

TEST(TapTables, ProductsAreTheSameOrApart) {
    for (const Problem& problem : listed_correlations())
        for (const RowPhases rows : kBothRows) expect_products_are_the_same_or_apart(problem, TapTables(problem, rows));
}

TEST(TapTables, TapGroupsHoldEveryProductOnce) {
    for (const Problem& problem : listed_correlations()) {
        const TapTables tables(problem);
        for (int64_t groups = 1; groups <= tables.plane.products(); ++groups) {
            const std::vector<TapGroup>& begins = tables.plane.tap_groups(groups);
            EXPECT_LE(static_cast<int64_t>(begins.size()) - 1, groups) << problem.str();
            EXPECT_EQ(begins.front().first_product, 0) << problem.str();
            EXPECT_EQ(begins.back().first_product, tables.plane.products()) << problem.str();
            EXPECT_EQ(begins.back().first_tap, tables.plane.taps()) << problem.str();
            for (size_t i = 1; i < begins.size(); ++i) {
                EXPECT_LT(begins[i - 1].first_product, begins[i].first_product) << problem.str() << ": an empty group";
                EXPECT_LT(begins[i - 1].first_tap, begins[i].first_tap) << problem.str();
            }
        }
    }
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
