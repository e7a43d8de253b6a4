#include <gtest/gtest.h>

#include "tconv3d/problem.hpp"
#include "tensors.hpp"

namespace tconv3d {
namespace {

using testing::error_of;

constexpr const char* kCanonical = "n8 ci48 co24 96x96x96 k3 s1 p0 op0 d1 g1 f32 ncdhw fwd";

TEST(ProblemText, PrintsEveryField) {
    Problem problem;
    problem.batch = 8;
    problem.src_channels = 48;
    problem.dst_channels = 24;
    problem.src = {96, 96, 96};
    problem.kernel = {3, 3, 3};
    EXPECT_EQ(problem.str(), kCanonical);
}

TEST(ProblemText, RoundTrips) {
    for (const char* line : {
             kCanonical,
             "n0 ci1 co2 1x2x3 k3x5x7 s2x1x3 p1x2x3 op1x0x2 d1x2x3 g1 bf16 ndhwc bwd_data",
             "n2 ci8 co8 4x4x4 k2 s2 p0 op0 d1 g4 f16 ncdhw bwd_weight",
             "n1 ci1 co1 5x5x5 k1 s1 p0 op0 d1 g1 f64 ndhwc fwd",
             "n1 ci1 co1 5x5x5 k1 s1 p0 op0 d1 g1 f32 tf32 ncdhw fwd",
         }) {
        EXPECT_EQ(Problem::parse(line).str(), line);
        EXPECT_EQ(Problem::parse(Problem::parse(line).str()), Problem::parse(line));
    }
}

TEST(ProblemText, HasDefaultsAndFreeOrder) {
    EXPECT_EQ(Problem::parse("k3 96 co24\tci48  n8 "), Problem::parse(kCanonical));
    EXPECT_EQ(Problem::parse("ci1 co1 2x3x4 k1").str(), "n1 ci1 co1 2x3x4 k1 s1 p0 op0 d1 g1 f32 ncdhw fwd");
}

TEST(ProblemText, EveryFieldCountsInEquality) {
    const Problem base = Problem::parse("n2 ci4 co4 5x5x5 k3");
    for (const char* other :
         {"n1 ci4 co4 5x5x5 k3", "n2 ci2 co4 5x5x5 k3", "n2 ci4 co2 5x5x5 k3", "n2 ci4 co4 5x5x6 k3",
          "n2 ci4 co4 5x5x5 k3x3x1", "n2 ci4 co4 5x5x5 k3 s2", "n2 ci4 co4 5x5x5 k3 p1", "n2 ci4 co4 5x5x5 k3 op1",
          "n2 ci4 co4 5x5x5 k3 d2", "n2 ci4 co4 5x5x5 k3 g2", "n2 ci4 co4 5x5x5 k3 f64", "n2 ci4 co4 5x5x5 k3 ndhwc",
          "n2 ci4 co4 5x5x5 k3 bwd_data", "n2 ci4 co4 5x5x5 k3 tf32"})
        EXPECT_NE(base, Problem::parse(other)) << other;
}

struct BadLine {
    const char* line;
    const char* fragment;
};

TEST(ProblemText, ErrorsNameTheWord) {
    for (const BadLine& bad : {
             BadLine{"ci1 co1 2x2x2 k3 zz4", "'zz4' is not a word"},
             BadLine{"ci1 co1 2x2x2 k3 hello", "'hello' is not a word"},
             BadLine{"kb1_70: ci1 co1 2x2x2 k3", "'kb1_70:'"},
             BadLine{"ci1 co1 2x2 k3", "'2x2' is neither one integer nor three"},
             BadLine{"ci1 co1 2x2x2x2 k3", "'2x2x2x2' is neither"},
             BadLine{"ci1 co1 2x2x2 k3x", "'k3x' is neither"},
             BadLine{"ci1.5 co1 2x2x2 k3", "'ci1.5' is not a key and an integer"},
             BadLine{"ci99999999999999999999 co1 2x2x2 k3", "'ci99999999999999999999' is not a key and an integer"},
             BadLine{"ci1 ci2 co1 2x2x2 k3", "'ci2' gives ci a second time"},
             BadLine{"ci1 co1 2x2x2 3x3x3 k3", "'3x3x3' gives src a second time"},
             BadLine{"ci1 co1 2x2x2 k3 f32 f64", "'f64' gives dtype a second time"},
             BadLine{"co1 2x2x2 k3", "lacks ci"},
             BadLine{"ci1 2x2x2 k3", "lacks co"},
             BadLine{"ci1 co1 k3", "lacks the extents of src"},
             BadLine{"ci1 co1 2x2x2", "lacks k"},
             BadLine{"", "lacks ci"},
         }) {
        const std::string message = error_of([&] { Problem::parse(bad.line); });
        EXPECT_NE(message.find(bad.fragment), std::string::npos) << bad.line << " -> " << message;
    }
}

TEST(ProblemValidate, RejectsWithTheValues) {
    for (const BadLine& bad : {
             BadLine{"n-1 ci1 co1 2x2x2 k1", "batch must be at least 0, got -1"},
             BadLine{"ci0 co1 2x2x2 k1", "src_channels must be at least 1, got 0"},
             BadLine{"ci-2 co1 2x2x2 k1", "src_channels must be at least 1, got -2"},
             BadLine{"ci1 co0 2x2x2 k1", "dst_channels must be at least 1, got 0"},
             BadLine{"ci1 co1 2x0x2 k1", "src extents must be at least 1 in every dimension, got 2x0x2"},
             BadLine{"ci1 co1 2x2x-2 k1", "src extents must be at least 1 in every dimension, got 2x2x-2"},
             BadLine{"ci1 co1 2x2x2 k3x0x3", "kernel must be at least 1 in every dimension, got 3x0x3"},
             BadLine{"ci1 co1 2x2x2 k1 s0", "stride must be at least 1 in every dimension, got 0"},
             BadLine{"ci1 co1 2x2x2 k1 s1x-1x1", "stride must be at least 1 in every dimension, got 1x-1x1"},
             BadLine{"ci1 co1 2x2x2 k1 p-1", "padding must be at least 0 in every dimension, got -1"},
             BadLine{"ci1 co1 2x2x2 k1 op0x-1x0", "output_padding must be at least 0 in every dimension, got 0x-1x0"},
             BadLine{"ci1 co1 2x2x2 k1 d0", "dilation must be at least 1 in every dimension, got 0"},
             BadLine{"ci4 co4 2x2x2 k1 g0", "groups must be at least 1, got 0"},
             BadLine{"ci4 co4 2x2x2 k1 g-2", "groups must be at least 1, got -2"},
             BadLine{"ci3 co4 2x2x2 k1 g2", "src_channels 3 is not divisible by groups 2"},
             BadLine{"ci4 co3 2x2x2 k1 g2", "dst_channels 3 is not divisible by groups 2"},
             BadLine{"ci1 co1 2x2x2 k1 op1", "output_padding 1, stride 1, dilation 1 in dimension d"},
             BadLine{"ci1 co1 2x2x2 k1 s2 d2 op0x0x2", "output_padding 2, stride 2, dilation 2 in dimension w"},
             BadLine{"ci1 co1 2x2x2 k1 p1", "src 2 gives dst 0"},
             BadLine{"ci1 co1 1x2x3 k1 p0x0x2", "src 1x2x3 gives dst 1x2x-1"},
             BadLine{"n0 ci1 co1 1x1x1 k1 p1", "gives dst -1"},
             BadLine{"ci1 co1 3x3x3 k1 s9223372036854775807", "the extents of dst do not fit in 64 bits"},
             BadLine{"ci1 co1 3x3x3 k3 d9223372036854775807", "the extents of dst do not fit in 64 bits"},
             BadLine{"ci1 co1 3x3x3 k1 p4611686018427387904", "the extents of dst do not fit in 64 bits"},
             BadLine{"n4 ci1 co1 2000000x2000000x2000000 k1", "the bytes of src do not fit in 64 bits"},
             BadLine{"n2147483647 ci1 co1 2x2x2 k1 s65536", "the bytes of dst do not fit in 64 bits"},
             BadLine{"ci4000000000 co4000000000 1x1x1 k1", "the bytes of weight do not fit in 64 bits"},
             BadLine{"ci1 co1 2x2x2 k1 f64 tf32", "tf32 is for dtype f32, got f64"},
         }) {
        const std::string message = error_of([&] { Problem::parse(bad.line).validate(); });
        EXPECT_NE(message.find(bad.fragment), std::string::npos) << bad.line << " -> " << message;
        EXPECT_NE(message.find("problem: n"), std::string::npos) << message;
    }
}

TEST(ProblemValidate, AcceptsTheEdges) {
    for (const char* line : {
             "n0 ci1 co1 2x2x2 k1",
             "ci1 co1 2x2x2 k1 s2 op1",               // output_padding below stride
             "ci1 co1 2x2x2 k1 d2 op1",               // and below dilation only
             "ci1 co1 1x1x1 k1 s9223372036854775807", // one voxel: the stride is never taken
             "ci1 co1 2x2x2 k3 p1",                   // dst 2
             "ci1 co1 1500000x1500000x1 k1 f64",      // beyond 2^31 elements
         })
        EXPECT_NO_THROW(Problem::parse(line).validate()) << line;
}

TEST(ProblemShape, DstFollowsTheFormula) {
    EXPECT_EQ(Problem::parse("ci1 co1 96x96x96 k3").dst(), (Extents{98, 98, 98}));
    EXPECT_EQ(Problem::parse("ci1 co1 16x32x32 k3 s2 p1 d2").dst(), (Extents{33, 65, 65}));
    EXPECT_EQ(Problem::parse("ci1 co1 12x24x48 k3x5x7 s2 p1x2x3 op1").dst(), (Extents{24, 48, 96}));
}

TEST(ProblemShape, CountsElements) {
    const Problem problem = Problem::parse("n2 ci6 co4 2x3x4 k3x2x1 g2 bf16");
    EXPECT_EQ(problem.dst(), (Extents{4, 4, 4}));
    EXPECT_EQ(problem.src_voxels(), 24);
    EXPECT_EQ(problem.dst_voxels(), 64);
    EXPECT_EQ(problem.taps(), 6);
    EXPECT_EQ(problem.src_elements(), 288);
    EXPECT_EQ(problem.dst_elements(), 512);
    EXPECT_EQ(problem.weight_elements(), 6 * 2 * 6);
    EXPECT_EQ(problem.bytes(), 2.0 * (288 + 512 + 72));
}

/// Every (src index, tap) pair that lands inside dst, one by one.
double counted_flops(const Problem& problem) {
    const Extents dst = problem.dst();
    double pairs = 1;
    for (size_t dim = 0; dim < 3; ++dim) {
        int64_t count = 0;
        for (int64_t i = 0; i < problem.src[dim]; ++i)
            for (int64_t tap = 0; tap < problem.kernel[dim]; ++tap) {
                const int64_t o = problem.stride[dim] * i - problem.padding[dim] + tap * problem.dilation[dim];
                count += o >= 0 && o < dst[dim];
            }
        pairs *= static_cast<double>(count);
    }
    const int64_t channel_pairs = problem.src_channels * problem.dst_channels_per_group();
    return 2.0 * static_cast<double>(problem.batch * channel_pairs) * pairs;
}

TEST(ProblemShape, FlopsLeaveOutTapsThatFallOutside) {
    for (const char* line : {
             "n2 ci3 co5 4x5x6 k3",
             "n2 ci4 co6 4x5x6 k3 s2 p1 op1 g2",
             "ci1 co1 7x7x7 k4 s3 p2",
             "ci1 co1 5x5x5 k3 s2 p5 d4",
             "ci1 co1 9x9x9 k1 p4",
             "ci1 co1 1x2x3 k5 s1x2x3 p2x1x0 op0x1x2",
             "n0 ci1 co1 2x2x2 k3",
         }) {
        const Problem problem = Problem::parse(line);
        ASSERT_NO_THROW(problem.validate()) << line;
        EXPECT_EQ(problem.flops(), counted_flops(problem)) << line;
    }
    EXPECT_EQ(Problem::parse(kCanonical).flops(), 2.0 * 8 * 48 * 24 * 96 * 96 * 96 * 27);
}

TEST(ProblemText, ExtentsPrintOnceWhenEqual) {
    EXPECT_EQ(str(Extents{3, 3, 3}), "3");
    EXPECT_EQ(str(Extents{3, 3, 4}), "3x3x4");
}

} // namespace
} // namespace tconv3d
