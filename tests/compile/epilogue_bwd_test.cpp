// NVRTC takes the backward of every step, within the time and the registers that a call may cost.
#include "cpu_seconds.hpp"
#include "cuda/epilogue_bwd/epilogue_bwd.hpp"
#include "every_step.hpp"
#include "nvrtc_test.hpp"
#include "repeated.hpp"

namespace tconv3d::cuda {
namespace {

using EpilogueBwdCompile = testing::NvrtcTest;

Problem problem_of(DType dtype, Layout layout) {
    Problem problem = Problem::parse("n2 ci1 co6 4x4x4 k1");
    problem.dtype = dtype;
    problem.layout = layout;
    return problem;
}

TEST_F(EpilogueBwdCompile, TakesEveryStepInEveryDtype) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
        for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
            const Problem problem = problem_of(dtype, layout);
            const Compiled compiled =
                compile_for(80, epilogue_bwd_request(problem, Epilogue::parse(testing::kEveryStep), true));
            EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << problem.str() << "\n" << compiled.log;
        }
}

TEST_F(EpilogueBwdCompile, KeepsUsualChainsInRegisters) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
        for (const char* chain : {"", "add(1) div(2)", "relu", "silu", "mish", "residual_add relu",
                                  "channel_mul channel_add leaky_relu(0.1)", "channel_mul gelu residual_mul"}) {
            const Problem problem = problem_of(dtype, Layout::ndhwc);
            const Compiled compiled = compile_for(90, epilogue_bwd_request(problem, Epilogue::parse(chain), false));
            EXPECT_EQ(compiled.spill_bytes, 0)
                << problem.str() << " " << chain << ", " << compiled.registers << " registers";
            EXPECT_EQ(compiled.local_bytes, 0) << problem.str() << " " << chain << ": an array is not in registers";
            EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << compiled.log;
        }
    for (const DType dtype : {DType::f64, DType::f16}) {
        const Compiled sums = compile_for(90, epilogue_bwd_sums_request(problem_of(dtype, Layout::ncdhw)));
        EXPECT_EQ(sums.local_bytes, 0) << name(dtype);
    }
}

TEST_F(EpilogueBwdCompile, TakesLessThanThreeSecondsForLongChains) {
    constexpr double kMostSeconds = 3;
    for (const std::string& chain :
         {testing::repeated("mish", 8), testing::repeated("mish", 16), testing::repeated("channel_mul mish", 6),
          testing::repeated("mish softplus div(3) elu(2)", 50), testing::repeated("gelu residual_mul", 30)}) {
        const double start = testing::cpu_seconds();
        compile_for(90, epilogue_bwd_request(problem_of(DType::bf16, Layout::ndhwc), Epilogue::parse(chain), false));
        EXPECT_LT(testing::cpu_seconds() - start, kMostSeconds) << chain;
    }
}

} // namespace
} // namespace tconv3d::cuda
