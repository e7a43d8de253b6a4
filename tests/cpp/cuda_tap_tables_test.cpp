// The tables of the tensor-core kernels against the definition of a transposed convolution.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "core/cuts.hpp"
#include "cuda/tensorcore/tables.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::listed_problems;

constexpr RowPhases kBothRows[] = {RowPhases::together, RowPhases::apart};

/// (output, tap, slice) along D, from the definition.
std::set<std::tuple<int64_t, int64_t, int64_t>> meetings(const Problem& problem) {
    std::set<std::tuple<int64_t, int64_t, int64_t>> found;
    for (int64_t slice = 0; slice < problem.src[0]; ++slice)
        for (int64_t tap = 0; tap < problem.kernel[0]; ++tap) {
            const int64_t output = problem.stride[0] * slice - problem.padding[0] + tap * problem.dilation[0];
            if (output >= 0 && output < problem.dst()[0]) found.insert({output, tap, slice});
        }
    return found;
}

/// The same from the rings: in each slice, every slot takes the one shift that is congruent to slice - slot.
std::set<std::tuple<int64_t, int64_t, int64_t>> meetings_of_rings(const Problem& problem, const TapTables& tables) {
    std::set<std::tuple<int64_t, int64_t, int64_t>> found;
    for (int64_t slice = 0; slice < problem.src[0]; ++slice)
        for (size_t r = 0; r < tables.depth.rings.size(); ++r)
            for (int64_t slot = 0; slot < tables.depth.rings[r].length; ++slot) {
                const Ring& ring = tables.depth.rings[r];
                int64_t shift = ring.shift_max;
                while (floor_div(slice - shift, ring.length) * ring.length + slot != slice - shift) --shift;
                EXPECT_GE(shift, ring.shift_min) << problem.str();
                const int64_t reach = static_cast<int64_t>(r) + problem.padding[0] - shift * problem.stride[0];
                const int64_t output = problem.stride[0] * (slice - shift) + static_cast<int64_t>(r);
                if (reach % problem.dilation[0] != 0 || reach / problem.dilation[0] >= problem.kernel[0]) continue;
                if (output < 0 || output >= problem.dst()[0]) continue;
                EXPECT_TRUE(found.insert({output, reach / problem.dilation[0], slice}).second) << problem.str();
            }
    return found;
}

TEST(TapTables, RingsMeetEveryTapAlongD) {
    for (const Problem& problem : listed_problems())
        EXPECT_EQ(meetings_of_rings(problem, TapTables(problem)), meetings(problem)) << problem.str();
}

/// Adds the taps that a pass serves, for outputs whose phase along h is `first_row` or follows it.
void expect_taps_of_pass(const Problem& problem, const TapTables& tables, int64_t first_row, const Pass& pass,
                         std::set<std::pair<int64_t, int64_t>>& taps) {
    for (const PlaneShift& shift : tables.plane.shifts)
        for (const PlaneTap& tap : shift.taps) {
            const int64_t tap_h = pass.tap_h + tap.tap_h, shift_h = pass.shift_h + shift.shift_h;
            EXPECT_TRUE(taps.insert({tap_h, tap.tap_w}).second) << problem.str();
            // Tap j adds to phase r at shift where stride · shift + j · dilation = r + padding.
            EXPECT_EQ(problem.stride[1] * shift_h + tap_h * problem.dilation[1],
                      first_row + tap.phase / problem.stride[2] + problem.padding[1]);
            EXPECT_EQ(problem.stride[2] * shift.shift_w + tap.tap_w * problem.dilation[2],
                      tap.phase % problem.stride[2] + problem.padding[2]);
            EXPECT_GE(shift_h, tables.shift_min[1]) << problem.str();
            EXPECT_LE(shift_h, tables.shift_max[1]) << problem.str();
            EXPECT_GE(shift.shift_w, tables.shift_min[2]) << problem.str();
            EXPECT_LE(shift.shift_w, tables.shift_max[2]) << problem.str();
        }
}

TEST(TapTables, ShiftsServeEveryTapOfThePlaneOnce) {
    for (const Problem& problem : listed_problems())
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
    for (const Problem& problem : listed_problems())
        for (const RowPhases rows : kBothRows) expect_products_are_the_same_or_apart(problem, TapTables(problem, rows));
}

TEST(TapTables, TapGroupsHoldEveryProductOnce) {
    for (const Problem& problem : listed_problems()) {
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
