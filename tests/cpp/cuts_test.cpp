#include <gtest/gtest.h>

#include "core/cuts.hpp"

namespace tconv3d {
namespace {

TEST(FloorDiv, RoundsDown) {
    EXPECT_EQ(floor_div(7, 2), 3);
    EXPECT_EQ(floor_div(-7, 2), -4);
    EXPECT_EQ(floor_div(-8, 2), -4);
    EXPECT_EQ(floor_div(-1, 5), -1);
    EXPECT_EQ(floor_div(0, 5), 0);
}

TEST(Cuts, CoverTheWhole) {
    EXPECT_EQ(cuts(7, 3), 3);
    EXPECT_EQ(cuts(6, 3), 2);
    EXPECT_EQ(cuts(0, 3), 0);
    EXPECT_EQ(round_up(7, 3), 9);
    EXPECT_EQ(round_up(6, 3), 6);
}

} // namespace
} // namespace tconv3d
