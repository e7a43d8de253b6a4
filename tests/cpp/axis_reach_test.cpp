// The arithmetic of reaching, against the definition: 0 <= stride · src − padding + tap · dilation < dst.
#include "core/axis_reach.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tconv3d {
namespace {

AxisReach random_axis(std::mt19937& random) {
    const auto below = [&](int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random); };
    for (;;) {
        AxisReach axis{1 + below(12), 0, 1 + below(9), 1 + below(9), below(40), 1 + below(9)};
        axis.dst = (axis.src - 1) * axis.stride + axis.dilation * (axis.kernel - 1) + 1 + below(4) - 2 * axis.padding;
        if (axis.dst >= 1) return axis;
    }
}

/// From the first to the last of some indexes; none where there are none.
IndexRange hull(const std::vector<int64_t>& indexes) {
    if (indexes.empty()) return {0, 0};
    const auto [least, most] = std::minmax_element(indexes.begin(), indexes.end());
    return {*least, *most - *least + 1};
}

bool covers(const IndexRange& outer, const IndexRange& inner) {
    return inner.count == 0 || (outer.first <= inner.first && outer.first + outer.count >= inner.first + inner.count);
}

TEST(AxisReach, EqualsTheDefinition) {
    std::mt19937 random(7);
    for (int i = 0; i < 3000; ++i) {
        const AxisReach axis = random_axis(random);
        SCOPED_TRACE(::testing::Message() << "src " << axis.src << " dst " << axis.dst << " k" << axis.kernel << " s"
                                          << axis.stride << " p" << axis.padding << " d" << axis.dilation);
        const int64_t first = axis.dst / 3, end = axis.dst - axis.dst / 4;
        std::vector<int64_t> taps, sources, window_sources;
        for (int64_t tap = 0; tap < axis.kernel; ++tap) {
            std::vector<int64_t> of_tap, of_window;
            for (int64_t src = 0; src < axis.src; ++src) {
                const int64_t output = axis.stride * src - axis.padding + axis.dilation * tap;
                if (output >= 0 && output < axis.dst) of_tap.push_back(src);
                if (output >= first && output < end) of_window.push_back(src);
            }
            ASSERT_EQ(axis.sources(tap).count, hull(of_tap).count);
            ASSERT_EQ(axis.sources(tap, first, end).count, hull(of_window).count);
            ASSERT_TRUE(covers(axis.sources(tap), hull(of_tap)));
            ASSERT_TRUE(covers(axis.sources(tap, first, end), hull(of_window)));
            if (!of_tap.empty()) taps.push_back(tap);
            sources.insert(sources.end(), of_tap.begin(), of_tap.end());
            window_sources.insert(window_sources.end(), of_window.begin(), of_window.end());
        }
        ASSERT_EQ(axis.pairs(), static_cast<double>(sources.size()));
        ASSERT_TRUE(covers(axis.reaching_taps(), hull(taps)));
        ASSERT_TRUE(covers(axis.reaching_sources(), hull(sources)));
        ASSERT_TRUE(covers(axis.reaching_sources(first, end), hull(window_sources)));
        // Where dst has an output for every remainder, nothing else is among them.
        if (axis.dst >= axis.stride && axis.dst >= axis.dilation) {
            ASSERT_EQ(axis.reaching_taps().count, hull(taps).count);
            ASSERT_EQ(axis.reaching_sources().count, hull(sources).count);
        }
    }
}

TEST(AxisReach, CountsPairsOfAnySize) {
    constexpr int64_t kLarge = int64_t{1} << 40;
    EXPECT_EQ((AxisReach{kLarge, 3 * kLarge - 2, kLarge, 1, 0, 2}.pairs()), 0x1p80);
    // Half of the outputs are cut off at either end, and with them a fourth of the pairs.
    EXPECT_NEAR((AxisReach{kLarge, kLarge, kLarge, 1, kLarge / 2, 1}.pairs()) / 0x1p80, 0.75, 1e-9);
    constexpr int64_t kHuge = int64_t{1} << 62;
    EXPECT_EQ((AxisReach{1, 1, 2, 1, kHuge / 2, kHuge}.pairs()), 0);
    EXPECT_EQ((AxisReach{1, 1, 3, 1, kHuge / 2, kHuge / 2}.pairs()), 1);
    EXPECT_EQ((AxisReach{1, 1, 1, INT64_MAX, 0, INT64_MAX}.pairs()), 1);
}

} // namespace
} // namespace tconv3d
