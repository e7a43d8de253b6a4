// The index arithmetic that host and kernels share, against the definition: stride · src − padding + tap · dilation =
// dst.
#include "cuda/kernels/shared/tap_progression.cuh"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace tconv3d::cuda {
namespace {

struct Dimension {
    int64_t src, kernel, stride, padding, dilation, dst;

    std::string str() const {
        std::string text;
        for (const auto& [name, value] : std::initializer_list<std::pair<const char*, int64_t>>{
                 {"src", src}, {"k", kernel}, {"s", stride}, {"p", padding}, {"d", dilation}, {"dst", dst}})
            text += std::string(" ") + name + std::to_string(value);
        return text;
    }
};

int64_t below(int64_t end, std::mt19937& random) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
}

/// Any values, with an output padding of up to 3; in every other one stride and dilation share a factor.
Dimension random_dimension(bool shares_a_factor, std::mt19937& random) {
    for (;;) {
        const int64_t factor = shares_a_factor ? 2 + below(3, random) : 1;
        Dimension dim{1 + below(9, random),
                      1 + below(7, random),
                      factor * (1 + below(6, random)),
                      below(12, random),
                      factor * (1 + below(6, random)),
                      0};
        dim.dst = (dim.src - 1) * dim.stride - 2 * dim.padding + dim.dilation * (dim.kernel - 1) + 1 + below(4, random);
        if (dim.dst >= 1) return dim;
    }
}

/// Who meets whom.
class Meetings {
public:
    void add(int64_t src, int64_t tap, int64_t dst) {
        EXPECT_TRUE(found_.insert({src, tap, dst}).second) << "twice: " << src << " " << tap << " " << dst;
    }
    bool operator==(const Meetings& other) const { return found_ == other.found_; }

private:
    std::set<std::array<int64_t, 3>> found_;
};

Meetings meetings(const Dimension& dim) {
    Meetings found;
    for (int64_t src = 0; src < dim.src; ++src)
        for (int64_t tap = 0; tap < dim.kernel; ++tap) {
            const int64_t dst = dim.stride * src - dim.padding + tap * dim.dilation;
            if (dst >= 0 && dst < dim.dst) found.add(src, tap, dst);
        }
    return found;
}

Meetings meetings_of_fwd(const Dimension& dim) {
    const FwdTaps taps(dim.kernel, dim.stride, dim.padding, dim.dilation);
    Meetings found;
    for (int64_t dst = 0; dst < dim.dst; ++dst) {
        const TapRange run = taps.at(dst, dim.src);
        for (int64_t i = 0; i < run.count; ++i)
            found.add(run.in - i * taps.in_back(), run.tap + i * taps.tap_step(), dst);
    }
    return found;
}

Meetings meetings_of_bwd_data(const Dimension& dim) {
    const BwdDataTaps taps(dim.kernel, dim.stride, dim.padding, dim.dilation);
    Meetings found;
    for (int64_t src = 0; src < dim.src; ++src) {
        const TapRange run = taps.at(src, dim.dst);
        for (int64_t i = 0; i < run.count; ++i)
            found.add(src, run.tap + i * taps.tap_step(), run.in - i * taps.in_back());
    }
    return found;
}

Meetings meetings_of_bwd_weight(const Dimension& dim) {
    Meetings found;
    for (int64_t tap = 0; tap < dim.kernel; ++tap) {
        const int64_t offset = tap * dim.dilation - dim.padding;
        const IndexRange range = indexes_within(dim.stride, offset, dim.src, dim.dst);
        for (int64_t src = range.first; src < range.first + range.count; ++src)
            found.add(src, tap, dim.stride * src + offset);
    }
    return found;
}

TEST(TapProgression, MeetsWhatTheDefinitionSays) {
    std::mt19937 random(1);
    for (int turn = 0; turn < 4000; ++turn) {
        const Dimension dim = random_dimension(turn % 2 == 1, random);
        const Meetings expected = meetings(dim);
        EXPECT_TRUE(meetings_of_fwd(dim) == expected) << "fwd" << dim.str();
        EXPECT_TRUE(meetings_of_bwd_data(dim) == expected) << "bwd_data" << dim.str();
        EXPECT_TRUE(meetings_of_bwd_weight(dim) == expected) << "bwd_weight" << dim.str();
    }
}

TEST(TapProgression, InvertsModuloAnyNumber) {
    for (int64_t modulus = 1; modulus < 60; ++modulus)
        for (int64_t value = 1; value < 60; ++value) {
            EXPECT_EQ(greatest_common_divisor(value, modulus), std::gcd(value, modulus));
            if (std::gcd(value, modulus) != 1) continue;
            EXPECT_EQ(value * inverse_modulo(value, modulus) % modulus, 1 % modulus) << value << " " << modulus;
        }
    EXPECT_EQ(FwdTaps(3, 6, 1, 4).gcd, 2);
    EXPECT_EQ(FwdTaps(3, 6, 1, 4).inverse, 2);
    EXPECT_EQ(2000000011 * inverse_modulo(2000000011, 2147483647) % 2147483647, 1);
}

TEST(TapProgression, FindsTapsOfTheLargestStrides) {
    const FwdTaps taps(2, 2000000000, 0, 1000000000);
    const TapRange run = taps.at(3000000000, 3);
    EXPECT_EQ((std::array<int64_t, 3>{run.tap, run.in, run.count}), (std::array<int64_t, 3>{1, 1, 1}));
    EXPECT_EQ(taps.at(3000000001, 3).count, 0);
}

} // namespace
} // namespace tconv3d::cuda
