#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/half.hpp"
#include "cuda/kernels/shared/bf16_rounding.cuh"

namespace tconv3d {
namespace {

/// The value of a binary floating-point pattern, from its definition.
double decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
    const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1u ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits), exponent - bias - mantissa_bits);
}

template <typename Half>
uint16_t stored_bits(float value) {
    Half half;
    store(half, value);
    return half.bits;
}

template <typename Half>
void check_every_pattern(int exponent_bits, int mantissa_bits) {
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
        const float loaded = load(Half{static_cast<uint16_t>(pattern)});
        const double expected = decode(pattern, exponent_bits, mantissa_bits);
        if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(loaded)) << pattern;
            ASSERT_TRUE(std::isnan(load(Half{stored_bits<Half>(loaded)}))) << pattern;
            continue;
        }
        ASSERT_EQ(static_cast<double>(loaded), expected) << pattern;
        ASSERT_EQ(std::signbit(loaded), (pattern & 0x8000u) != 0) << pattern;
        ASSERT_EQ(stored_bits<Half>(loaded), pattern);
    }
}

/// Between two neighbouring patterns: below, at and above the middle.
template <typename Half>
void check_every_rounding(uint32_t infinity) {
    for (uint32_t pattern = 0; pattern + 1 < infinity; ++pattern) {
        const float low = load(Half{static_cast<uint16_t>(pattern)});
        const float high = load(Half{static_cast<uint16_t>(pattern + 1)});
        const float middle = low + (high - low) / 2;
        const uint32_t even = pattern % 2 == 0 ? pattern : pattern + 1;
        ASSERT_EQ(stored_bits<Half>(middle), even) << pattern;
        ASSERT_EQ(stored_bits<Half>(-middle), even | 0x8000u) << pattern;
        ASSERT_EQ(stored_bits<Half>(std::nextafter(middle, low)), pattern);
        ASSERT_EQ(stored_bits<Half>(std::nextafter(middle, high)), pattern + 1);
    }
}

TEST(Float16, EveryPatternLoadsAndStoresBack) {
    check_every_pattern<Float16>(5, 10);
}

TEST(BFloat16, EveryPatternLoadsAndStoresBack) {
    check_every_pattern<BFloat16>(8, 7);
}

TEST(Float16, RoundsToNearestEven) {
    check_every_rounding<Float16>(0x7C00);
}

TEST(BFloat16, RoundsToNearestEven) {
    check_every_rounding<BFloat16>(0x7F80);
}

TEST(Float16, OverflowsToInfinityFromHalfAStepAboveTheLargest) {
    EXPECT_EQ(stored_bits<Float16>(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
    EXPECT_EQ(stored_bits<Float16>(65520.0f), 0x7C00);
    EXPECT_EQ(stored_bits<Float16>(-1e30f), 0xFC00);
    EXPECT_EQ(stored_bits<Float16>(std::numeric_limits<float>::infinity()), 0x7C00);
}

TEST(BFloat16, OverflowsToInfinity) {
    EXPECT_EQ(stored_bits<BFloat16>(std::numeric_limits<float>::max()), 0x7F80);
    EXPECT_EQ(stored_bits<BFloat16>(-std::numeric_limits<float>::infinity()), 0xFF80);
}

TEST(Float16, TinyValuesUnderflowToSignedZero) {
    EXPECT_EQ(stored_bits<Float16>(1e-30f), 0x0000);
    EXPECT_EQ(stored_bits<Float16>(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Halves, KeepNanWhoseMantissaWouldBeCutAway) {
    const float nan = float_of(0x7F800001u);
    EXPECT_TRUE(std::isnan(load(BFloat16{stored_bits<BFloat16>(nan)})));
    EXPECT_TRUE(std::isnan(load(Float16{stored_bits<Float16>(nan)})));
}

/// On a GPU that has no instruction for it: every pattern of 16 bits, and all that may lie behind them.
TEST(BFloat16, IsRoundedByKernelsAsOnTheHost) {
    for (uint32_t pattern = 0; pattern < 65536; ++pattern)
        for (const uint32_t rest : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
            const float value = float_of(pattern << 16 | rest);
            const uint16_t rounded = cuda::bf16_rounded(pattern << 16 | rest);
            if (std::isnan(value))
                ASSERT_EQ(rounded, 0x7FFF) << pattern;
            else
                ASSERT_EQ(rounded, stored_bits<BFloat16>(value)) << pattern << " " << rest;
        }
}

} // namespace
} // namespace tconv3d
