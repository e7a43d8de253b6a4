// The GPU's backward of an epilogue on the host, against that of the CPU: exact on small integers, where a chain keeps
// them, and close otherwise.
#include <gtest/gtest.h>

#include "core/number_text.hpp"
#include "cuda/epilogue_bwd/epilogue_bwd.hpp"
#include "emulated.hpp"
#include "epilogue_bwd_case.hpp"
#include "problem_file.hpp"
#include "repeated.hpp"

namespace tconv3d::cuda {
namespace {

using testing::EpilogueBwdCase;
using testing::Tensor;

/// As tests/emulator/epilogue_bwd.hpp reads it.
std::string bytes_of(const Tensor& tensor, DType dtype) {
    const int64_t count = tensor.count();
    return std::string(reinterpret_cast<const char*>(&count), sizeof count) +
           std::string(static_cast<const char*>(tensor.data()), static_cast<size_t>(count * bytes_per_element(dtype)));
}

/// What the gradient of the bias must be: the sums of channels.
Tensor bias_gradient(const EpilogueBwdCase& one) {
    std::vector<double> sums(static_cast<size_t>(one.problem.dst_channels));
    for (int64_t i = 0; i < one.grad_preactivation.count(); ++i)
        sums[static_cast<size_t>(one.channel(i))] += one.grad_preactivation.at(i);
    Tensor gradient(one.problem.dtype, one.problem.dst_channels);
    for (int64_t i = 0; i < gradient.count(); ++i) gradient.set(i, sums[static_cast<size_t>(i)]);
    return gradient;
}

/// The tensors of a case, then what the CPU makes of them.
std::string file_of(EpilogueBwdCase& one) {
    SerialExecutor executor;
    one.run(executor);
    const DType dtype = one.problem.dtype;
    std::string bytes = bytes_of(one.grad_dst, dtype) + bytes_of(one.saved(), dtype);
    for (const Tensor& operand : one.operands) bytes += bytes_of(operand, dtype);
    bytes += bytes_of(one.grad_preactivation, dtype);
    for (const Tensor& gradient : one.grad_operands) bytes += bytes_of(gradient, dtype);
    return bytes + bytes_of(bias_gradient(one), dtype);
}

/// One chain in a namespace of its own, with its kernels: is_right() runs it.
std::string case_source(const EpilogueBwdCase& one, const std::string& number, double tolerance, bool with_bias) {
    const KernelRequest packs = epilogue_bwd_request(one.problem, one.epilogue, with_bias);
    const KernelRequest sums = epilogue_bwd_sums_request(one.problem);
    const EpilogueBwdArguments args = epilogue_bwd_arguments(one.problem, one.epilogue, with_bias);
    const EpilogueBwd kernel(one.problem, one.epilogue, {}, with_bias);
    const auto renamed = [&](const KernelRequest& request) {
        return "#define " + request.entry + " " + request.entry + "_" + number + "\n#include \"" + request.file +
               "\"\n#undef " + request.entry + "\n";
    };
    return "namespace case_" + number + " {\n" + packs.prelude + renamed(packs) + "namespace sums {\n" + sums.prelude +
           renamed(sums) + "}\n" + testing::arguments_source(args) +
           testing::constant("kChannels", one.problem.dst_channels) +
           testing::constant("kPartials", static_cast<int64_t>(kernel.workspace_bytes() / sizeof(double))) +
           "constexpr double kTolerance = " + shortest(tolerance) + ";\nconstexpr char kFile[] = \"case_" + number +
           "\";\n#define KERNEL_ENTRY " + packs.entry + "_" + number + "\n#define SUMS_ENTRY " + sums.entry + "_" +
           number + "\n#include \"epilogue_bwd_case/chain.hpp\"\n#undef KERNEL_ENTRY\n#undef SUMS_ENTRY\n}\n";
}

/// All cases in one program: most of the time of one goes into headers.
void expect_right(std::vector<EpilogueBwdCase>& cases, const std::vector<double>& tolerances, bool with_bias = false) {
    const testing::Emulator emulator;
    emulator.allow_again("finish/thread_sums.cuh");
    std::string sources, calls;
    for (size_t i = 0; i < cases.size(); ++i) {
        const std::string number = std::to_string(i);
        emulator.write("case_" + number, file_of(cases[i]));
        sources += case_source(cases[i], number, tolerances[i], with_bias);
        calls += "    if (!case_" + number + "::is_right()) wrong += std::printf(\"" + cases[i].problem.str() + " " +
                 cases[i].epilogue.str().substr(0, 80) + "\\n\");\n";
    }
    emulator.write("cases.cpp", "#include \"epilogue_bwd.hpp\"\n" + sources + "int main() {\n    int wrong = 0;\n" +
                                    calls + "    return wrong == 0 ? 0 : 1;\n}\n");
    ASSERT_TRUE(emulator.compile("cases.cpp"));
    EXPECT_TRUE(emulator.execute()) << "the chains above are wrong";
}

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f64, DType::f16};

Problem problem_of(const std::string& shape, DType dtype, Layout layout) {
    Problem problem = Problem::parse(shape + " ci1 k1");
    problem.dtype = dtype;
    problem.layout = layout;
    return problem;
}

/// Shapes of odd planes, of several chunks, of rows that are longer than a CTA, and of fewer channels than a pack has.
constexpr const char* kShapes[] = {
    "n2 co3 5x7x11",   "n1 co8 3x4x8",  "n1 co1 1x1x1",   "n2 co5 2x3x3",
    "n1 co2 21x21x41", "n3 co7 9x9x32", "n1 co517 2x2x9", "n0 co4 2x2x2",
};

class EpilogueBwdEmulated : public ::testing::TestWithParam<Layout> {};

/// With the gradient of the bias and without in turns; TCONV3D_TEST_EVERY=1 takes both of each.
TEST_P(EpilogueBwdEmulated, IsExactOnIntegers) {
    const std::vector<std::string> chains = {"channel_mul relu residual_mul channel_add", "relu", "residual_add",
                                             "channel_add mul(2)", "residual_mul clamp(min=-1,max=2) channel_mul"};
    std::vector<EpilogueBwdCase> cases[2];
    const bool all = testing::sampled_every() == 1;
    for (size_t i = 0; i < 2 * std::size(kShapes) * (all ? 2 : 1); ++i) {
        const size_t shape = i / 2 % std::size(kShapes);
        const bool with_bias = (i + i / (2 * std::size(kShapes))) % 2 == 1;
        const Problem problem = problem_of(kShapes[shape], kDTypes[(i + i / 4) % 4], GetParam());
        EpilogueBwdCase& one = cases[with_bias ? 1 : 0].emplace_back(problem, chains[i % chains.size()]);
        std::mt19937 random(static_cast<unsigned>(i));
        const auto integers = [&](Tensor& tensor) {
            tensor = Tensor::integers(problem.dtype, tensor.count(), 1, random);
        };
        integers(one.grad_dst);
        integers(one.preactivation);
        for (Tensor& operand : one.operands) integers(operand);
    }
    for (const bool with_bias : {false, true}) {
        std::vector<EpilogueBwdCase>& list = cases[with_bias ? 1 : 0];
        expect_right(list, std::vector<double>(list.size(), 0), with_bias);
    }
}

/// Each step by itself, and with its output saved where it may be; then longer chains, the last of which are called.
const std::vector<std::string>& real_chains() {
    static const std::vector<std::string> all = {
        "add(0.5)",
        "mul(-3)",
        "div(3)",
        "clamp(min=-1.003,max=0.501)",
        "clamp(max=0.501) mul(2)",
        "relu",
        "relu add(1)",
        "leaky_relu(0.2)",
        "leaky_relu(-0.2)",
        "elu(1.5)",
        "elu(1.5) mul(2)",
        "sigmoid",
        "sigmoid mul(2)",
        "mul(2) tanh",
        "tanh mul(2)",
        "silu",
        "gelu",
        "gelu_tanh",
        "hardswish",
        "softplus(2,3)",
        "mish",
        "channel_add",
        "channel_mul",
        "residual_add silu",
        "residual_mul",
        "channel_mul gelu residual_mul channel_add",
        "residual_mul softplus residual_add mish channel_mul",
        testing::repeated("mish softplus(2,20)", 7) + "channel_mul",
        testing::repeated("elu(1.5) add(0.5) residual_add clamp(min=-3) gelu", 30),
    };
    return all;
}

TEST_P(EpilogueBwdEmulated, IsCloseToTheCpus) {
    std::vector<EpilogueBwdCase> cases;
    std::vector<double> tolerances;
    for (size_t i = 0; i < real_chains().size(); ++i) {
        const DType dtype = kDTypes[i % 4];
        cases.emplace_back(problem_of(kShapes[i % 2], dtype, GetParam()), real_chains()[i]);
        tolerances.push_back(dtype == DType::f64   ? 1e-13
                             : dtype == DType::f32 ? 1e-5
                             : dtype == DType::f16 ? 2e-3
                                                   : 1e-2);
    }
    expect_right(cases, tolerances);
}

/// Infinite gradients, NaN and the kinks themselves.
TEST_P(EpilogueBwdEmulated, HasTheKinksAndNansOfTheCpu) {
    constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> xs = {kInf, -kInf, kNan, 0, -0.0, -1, 0.5, -3, 3, 1.5};
    std::vector<EpilogueBwdCase> cases;
    for (const char* chain : {"relu", "relu add(1)", "clamp(min=-1,max=0.5)", "clamp(min=0)", "hardswish",
                              "leaky_relu(0.25)", "elu(1)", "elu(1) add(1)", "softplus(2,3)", "silu", "residual_mul"}) {
        EpilogueBwdCase& one = cases.emplace_back(problem_of("n1 co3 1x5x6", DType::f64, GetParam()), chain);
        for (int64_t i = 0; i < one.preactivation.count(); ++i) {
            one.preactivation.set(i, xs[static_cast<size_t>(i) % xs.size()]);
            one.grad_dst.set(i, i % 3 == 0 ? kInf : i % 3 == 1 ? kNan : 1);
        }
    }
    expect_right(cases, std::vector<double>(cases.size(), 1e-13));
}

INSTANTIATE_TEST_SUITE_P(All, EpilogueBwdEmulated, ::testing::Values(Layout::ncdhw, Layout::ndhwc),
                         [](const auto& chosen) { return name(chosen.param); });

TEST(CudaEpilogueBwd, CutsTensorsOfAnySize) {
    const Epilogue channels = Epilogue::parse("channel_add"), plain = Epilogue::parse("relu");
    for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
        const Problem large = problem_of("n64 co96 256x256x256", DType::bf16, layout);
        const EpilogueBwdArguments args = epilogue_bwd_arguments(large, channels, false);
        EXPECT_EQ(args.channels, 96);
        const int64_t slot_elements = args.chunk * (layout == Layout::ncdhw ? 96 : args.places);
        EXPECT_GE(args.slots * slot_elements, large.dst_elements());
        EXPECT_LT((args.slots - 1) * slot_elements, large.dst_elements());
        EXPECT_EQ(EpilogueBwd(large, channels, {}, false).workspace_bytes(),
                  static_cast<size_t>(args.slots * args.places) * sizeof(double));
        EXPECT_EQ(epilogue_bwd_arguments(large, plain, false).length, large.dst_elements()) << "one plane";
        EXPECT_EQ(EpilogueBwd(large, plain, {}, false).workspace_bytes(), 0U);
        EXPECT_EQ(EpilogueBwd(large, plain, {}, true).workspace_bytes(),
                  EpilogueBwd(large, channels, {}, false).workspace_bytes());
    }
    EXPECT_EQ(epilogue_bwd_arguments(problem_of("co6 8", DType::f32, Layout::ndhwc), channels, false).places, 12);
    EXPECT_EQ(epilogue_bwd_arguments(problem_of("co7 8", DType::bf16, Layout::ndhwc), channels, false).places, 56);
}

} // namespace
} // namespace tconv3d::cuda
