// Epilogues that are called for each output because their code at all outputs would take too long to compile.
#include <gtest/gtest.h>

#include "cuda/source/epilogue_source.hpp"
#include "emulated_tensorcore.hpp"
#include "repeated.hpp"

namespace tconv3d::cuda {
namespace {

bool calls(const std::string& epilogue, int64_t outputs) {
    return calls_epilogue(Epilogue::parse(epilogue), outputs);
}

TEST(LongEpilogue, IsCalledWhereItsCodeWouldBeLong) {
    for (const char* usual : {"", "relu", "leaky_relu(0.2)", "clamp(min=-1) div(2)", "residual_add relu"})
        EXPECT_FALSE(calls(usual, 384)) << usual;
    EXPECT_FALSE(calls("mish", 96));
    EXPECT_TRUE(calls("mish", 640));
    EXPECT_TRUE(calls("mish mish", 96));
    EXPECT_FALSE(calls(testing::repeated("mish", 16), 1));
}

TEST(LongEpilogue, CallsItsStepsWhereTheyAreVeryMany) {
    const auto source = [](const std::string& text) { return epilogue_source(Epilogue::parse(text), DType::f32); };
    EXPECT_EQ(source(testing::repeated("mish", 16)).find("called::"), std::string::npos);
    const std::string many = source(testing::repeated("mish softplus(2,20) elu(1.5) add(1)", 40));
    EXPECT_NE(many.find("x = called::elu(x, 0x1.8p+0f);"), std::string::npos);
    EXPECT_NE(many.find("__noinline__ Compute softplus(Compute x, Compute a, Compute b) {"), std::string::npos);
    EXPECT_EQ(many.find("steps::mish", many.find("steps::mish") + 1), std::string::npos) << "written once";
}

/// A chain that adds a residual and is long enough to be called for any number of outputs.
TEST(LongEpilogueEmulated, IsExactOnIntegers) {
    using namespace tensorcore;
    const Epilogue epilogue = Epilogue::parse("residual_add " + testing::repeated("mul(-1)", 1000));
    const struct {
        const char* problem;
        Engine engine;
        Form form;
        bool saves_preactivation;
    } cases[] = {
        {"n1 ci8 co12 3x6x16 k3 s2 p1 d2 tf32", Engine::wgmma, Form::streamed, false}, // slices without taps
        {"n1 ci8 co8 2x3x5 k1x2x3 s5x2x2 tf32 ndhwc", Engine::wgmma, Form::streamed, true},
        {"n1 ci16 co8 3x5x16 k3 p1 bf16", Engine::wgmma, Form::streamed, false},
        {"n2 ci24 co20 3x5x8 k3 s2 p1 tf32", Engine::wgmma, Form::gathered, false},
        {"n1 ci16 co24 3x4x6 k3 p1 bf16 ndhwc", Engine::wgmma, Form::gathered, true},
        {"n1 ci8 co8 2x4x5 k3 s2x1x1 p1 tf32", Engine::mma, Form::streamed, true},
    };
    testing::EmulatedTilings emulated;
    for (const auto& [line, engine, form, saves] : cases) {
        const Problem problem = Problem::parse(line);
        const Tiling tiling = best_tilings(problem, testing::small_hopper(), engine, form, 1).front();
        const std::string source =
            kernel_request(problem, tiling.tables, tiling.config, epilogue, {true, saves}).prelude;
        EXPECT_NE(source.find("kCallsEpilogue = true"), std::string::npos) << line;
        emulated.add(problem, tiling, "a long epilogue", saves, epilogue);
    }
    emulated.expect_exact();
}

} // namespace
} // namespace tconv3d::cuda
