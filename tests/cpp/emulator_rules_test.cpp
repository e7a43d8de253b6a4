// What the emulator asks of every kernel can fail: tests/emulator/rules.cpp breaks each rule once.
#include <gtest/gtest.h>

#include "emulated.hpp"

namespace tconv3d {
namespace {

TEST(EmulatorRules, EndKernelsThatBreakThem) {
    const testing::Emulator emulator;
    ASSERT_TRUE(emulator.compile("rules.cpp"));
    EXPECT_TRUE(emulator.execute()) << "the rules above";
}

} // namespace
} // namespace tconv3d
