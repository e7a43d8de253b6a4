// NVRTC takes every step of an epilogue.
#include "cuda/runtime/compile.hpp"
#include "cuda/source/output_source.hpp"
#include "every_step.hpp"
#include "nvrtc_test.hpp"

namespace tconv3d::cuda {
namespace {

using EpilogueCompile = testing::NvrtcTest;

TEST_F(EpilogueCompile, TakesEveryStepInEveryDtype) {
    const std::string kernel = "constexpr bool kAddsAbsentBias = false;\n#include \"store/vectors.cuh\"\n"
                               "extern \"C\" __global__ void store_all(Output output, const Compute* sums) {\n"
                               "    const int64_t i = threadIdx.x;\n"
                               "    const Fragment<2, 0, int64_t> pair{{sums[i], sums[i + 1]}, "
                               "{load_bias(output, 2)}, 2, 2 * i};\n"
                               "    store_fragment(output, pair, 2, true, true);\n"
                               "}\n";
    const Epilogue epilogue = Epilogue::parse(testing::kEveryStep);
    Problem problem;
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
        problem.dtype = dtype;
        for (const bool present : {false, true}) {
            const std::string source = output_source(problem, epilogue, {present, present}, 1);
            const Compiled compiled = compile_for(80, {"store/vectors.cuh", source + kernel, "store_all", 0});
            EXPECT_EQ(compiled.spill_bytes, 0) << name(dtype);
            EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << compiled.log;
        }
    }
}

} // namespace
} // namespace tconv3d::cuda
