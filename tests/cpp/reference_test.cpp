#include <gtest/gtest.h>

#include "reference/reference.hpp"
#include "tensors.hpp"

namespace tconv3d {
namespace {

using testing::Tensor;
using Values = std::vector<double>;

void run_reference(const Problem& problem, const Epilogue& epilogue, const Arguments& arguments) {
    problem.validate();
    SerialExecutor executor;
    prepare_reference(problem, epilogue)->execute(arguments, executor, nullptr);
}

/// dst of a tiny f32 problem, computed by the reference.
Values fwd(const char* line, const Values& src, const Values& weight, const Values& bias = {}) {
    const Problem problem = Problem::parse(line);
    const Tensor src_tensor = Tensor::of(problem.dtype, src);
    const Tensor weight_tensor = Tensor::of(problem.dtype, weight);
    const Tensor bias_tensor = Tensor::of(problem.dtype, bias);
    Tensor dst(problem.dtype, problem.dst_elements());
    Arguments arguments;
    arguments.src = src_tensor.data();
    arguments.weight = weight_tensor.data();
    arguments.bias = bias.empty() ? nullptr : bias_tensor.data();
    arguments.dst = dst.data();
    run_reference(problem, {}, arguments);
    EXPECT_TRUE(dst.guards_intact());
    return dst.values();
}

TEST(ReferenceFwd, SpreadsEachVoxelOverTheKernel) {
    // [1 2 3] with kernel [1 10 100]: 1, 10+2, 100+20+3, 200+30, 300
    EXPECT_EQ(fwd("ci1 co1 1x1x3 k1x1x3", {1, 2, 3}, {1, 10, 100}), (Values{1, 12, 123, 230, 300}));
}

TEST(ReferenceFwd, StrideInsertsGapsAndPaddingCutsBothEnds) {
    EXPECT_EQ(fwd("ci1 co1 1x1x2 k1x1x3 s2", {1, 2}, {1, 10, 100}), (Values{1, 10, 102, 20, 200}));
    EXPECT_EQ(fwd("ci1 co1 1x1x2 k1x1x3 s2 p0x0x1", {1, 2}, {1, 10, 100}), (Values{10, 102, 20}));
}

TEST(ReferenceFwd, OutputPaddingOnlyLengthensTheEnd) {
    EXPECT_EQ(fwd("ci1 co1 1x1x2 k1x1x3 s1x1x2 p0x0x1 op0x0x1", {1, 2}, {1, 10, 100}), (Values{10, 102, 20, 200}));
    EXPECT_EQ(fwd("ci1 co1 1x1x2 k1 s1x1x3 op0x0x2", {1, 2}, {1}), (Values{1, 0, 0, 2, 0, 0}));
}

TEST(ReferenceFwd, DilationSpreadsTheTaps) {
    EXPECT_EQ(fwd("ci1 co1 1x1x2 k1x1x2 d2", {1, 2}, {1, 10}), (Values{1, 2, 10, 20}));
    EXPECT_EQ(fwd("ci1 co1 1x1x2 k1x1x2 s2 d2", {1, 2}, {1, 10}), (Values{1, 0, 12, 0, 20}));
}

TEST(ReferenceFwd, DimensionsAreInTheOrderDHW) {
    EXPECT_EQ(fwd("ci1 co1 1x1x1 k1x2x3", {1}, {1, 2, 3, 4, 5, 6}), (Values{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(fwd("ci1 co1 1x2x1 k2x1x1 s1", {1, 2}, {1, 10}), (Values{1, 2, 10, 20}));
    EXPECT_EQ(fwd("ci1 co1 2x1x1 k1 s2x1x1", {1, 2}, {1}), (Values{1, 0, 2}));
}

TEST(ReferenceFwd, WeightIsInByOutWithTheBiasAdded) {
    // weight (ci, co): ci 0 -> 1, 2; ci 1 -> 10, 20
    EXPECT_EQ(fwd("ci2 co2 1x1x1 k1", {3, 4}, {1, 2, 10, 20}), (Values{43, 86}));
    EXPECT_EQ(fwd("ci2 co2 1x1x1 k1", {3, 4}, {1, 2, 10, 20}, {100, 200}), (Values{143, 286}));
}

TEST(ReferenceFwd, GroupsKeepTheirChannelsApart) {
    // group 0: ci 0, 1 -> co 0, 1; group 1: ci 2, 3 -> co 2, 3
    EXPECT_EQ(fwd("ci4 co4 1x1x1 k1 g2", {1, 2, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
              (Values{1 * 1 + 2 * 3, 1 * 2 + 2 * 4, 3 * 5 + 4 * 7, 3 * 6 + 4 * 8}));
}

TEST(ReferenceFwd, LayoutsHoldTheSameNumbers) {
    // two channels, two voxels: (c0: 1 2, c1: 3 4) is 1 2 3 4 in ncdhw and 1 3 2 4 in ndhwc
    EXPECT_EQ(fwd("ci2 co2 1x1x2 k1 ncdhw", {1, 2, 3, 4}, {1, 0, 0, 10}), (Values{1, 2, 30, 40}));
    EXPECT_EQ(fwd("ci2 co2 1x1x2 k1 ndhwc", {1, 3, 2, 4}, {1, 0, 0, 10}), (Values{1, 30, 2, 40}));
}

TEST(ReferenceFwd, AppliesTheEpilogueAndKeepsThePreactivation) {
    const Problem problem = Problem::parse("ci1 co2 1x1x2 k1 f64");
    const Tensor src = Tensor::of(DType::f64, {1, -2});
    const Tensor weight = Tensor::of(DType::f64, {1, 2});
    const Tensor bias = Tensor::of(DType::f64, {0.5, -0.5});
    const Tensor scale = Tensor::of(DType::f64, {10, 100});
    const Tensor residual = Tensor::of(DType::f64, {1, 2, 3, 4});
    Tensor dst(DType::f64, 4);
    Tensor preactivation(DType::f64, 4);
    Arguments arguments;
    arguments.src = src.data();
    arguments.weight = weight.data();
    arguments.bias = bias.data();
    arguments.operands = {scale.data(), residual.data()};
    arguments.dst = dst.data();
    arguments.preactivation = preactivation.data();
    run_reference(problem, Epilogue::parse("clamp(min=-1) channel_mul residual_add"), arguments);
    EXPECT_EQ(preactivation.values(), (Values{1.5, -1.5, 1.5, -4.5}));
    EXPECT_EQ(dst.values(), (Values{15 + 1, -10 + 2, 150 + 3, -100 + 4}));
}

TEST(ReferenceBwd, DataGathersWhatFwdSpread) {
    const Problem problem = Problem::parse("ci1 co1 1x1x2 k1x1x3 s2 p0x0x1 bwd_data");
    const Tensor grad_dst = Tensor::of(DType::f32, {1, 2, 3});
    const Tensor weight = Tensor::of(DType::f32, {1, 10, 100});
    Tensor grad_src(DType::f32, 2);
    Arguments arguments;
    arguments.grad_dst = grad_dst.data();
    arguments.weight = weight.data();
    arguments.grad_src = grad_src.data();
    run_reference(problem, {}, arguments);
    // voxel 0 reached outputs -1, 0, 1; voxel 1 outputs 1, 2, 3
    EXPECT_EQ(grad_src.values(), (Values{10 * 1 + 100 * 2, 1 * 2 + 10 * 3}));
}

TEST(ReferenceBwd, WeightAndBias) {
    const Problem problem = Problem::parse("n2 ci1 co1 1x1x2 k1x1x3 s2 p0x0x1 bwd_weight");
    const Tensor src = Tensor::of(DType::f32, {1, 10, 100, 1000});
    const Tensor grad_dst = Tensor::of(DType::f32, {1, 2, 3, 4, 5, 6});
    Tensor grad_weight(DType::f32, 3);
    Tensor grad_bias(DType::f32, 1);
    Arguments arguments;
    arguments.src = src.data();
    arguments.grad_dst = grad_dst.data();
    arguments.grad_weight = grad_weight.data();
    arguments.grad_bias = grad_bias.data();
    run_reference(problem, {}, arguments);
    EXPECT_EQ(grad_weight.values(), (Values{10 * 2 + 1000 * 5, 1 * 1 + 10 * 3 + 100 * 4 + 1000 * 6, 1 * 2 + 100 * 5}));
    EXPECT_EQ(grad_bias.values(), (Values{21}));
}

TEST(ReferenceBwd, AnEmptyBatchGivesZeroWeightGradients) {
    const Problem problem = Problem::parse("n0 ci1 co2 1x1x2 k1 bwd_weight");
    Tensor grad_weight(DType::f32, 2);
    Tensor grad_bias(DType::f32, 2);
    Arguments arguments;
    arguments.grad_weight = grad_weight.data();
    arguments.grad_bias = grad_bias.data();
    run_reference(problem, {}, arguments);
    EXPECT_EQ(grad_weight.values(), (Values{0, 0}));
    EXPECT_EQ(grad_bias.values(), (Values{0, 0}));
}

} // namespace
} // namespace tconv3d
