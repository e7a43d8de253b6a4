#include "core/number_text.hpp"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace tconv3d {
namespace {

std::string printed(const char* format, double value) {
    char buffer[512];
    std::snprintf(buffer, sizeof buffer, format, value);
    return buffer;
}

constexpr double kSpecial[] = {0, -0.0, 1, -1, 0.1, 1e-300, 5e-324, 1e22, 1.7976931348623157e308, 1234567, 999.95};

/// In the locale of a program that has set none, printf writes the same.
TEST(NumberText, WritesWhatPrintfDoes) {
    std::mt19937_64 random(1);
    std::vector<double> values(std::begin(kSpecial), std::end(kSpecial));
    std::uniform_real_distribution<double> exponent(-300, 300);
    for (int i = 0; i < 1000; ++i) values.push_back((i % 2 == 0 ? 1 : -1) * std::pow(10, exponent(random)));
    for (const double value : values) {
        EXPECT_EQ(with_digits(value, 4), printed("%.4g", value));
        EXPECT_EQ(whole(value), printed("%.0f", value));
        EXPECT_EQ(std::strtod(hexadecimal_literal(value).c_str(), nullptr), value);
        EXPECT_EQ(std::strtod(shortest(value).c_str(), nullptr), value);
    }
    EXPECT_EQ(hexadecimal_literal(static_cast<double>(0.1F)), "0x1.99999ap-4");
    EXPECT_EQ(hexadecimal_literal(-1.5), "-0x1.8p+0");
}

TEST(NumberText, NoLocaleChangesIt) {
    const std::string before = std::setlocale(LC_ALL, nullptr);
    const char* set = nullptr;
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"})
        if (set == nullptr) set = std::setlocale(LC_ALL, name);
    if (set == nullptr) GTEST_SKIP() << "no locale with a decimal comma is installed";
    EXPECT_EQ(with_digits(1.5, 4), "1.5");
    EXPECT_EQ(whole(110592), "110592");
    EXPECT_EQ(hexadecimal_literal(1.5), "0x1.8p+0");
    std::setlocale(LC_ALL, before.c_str());
}

} // namespace
} // namespace tconv3d
