// Epilogues that are called for each output because their code at all outputs would take too long to compile.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include "cuda/cells/cells.hpp"
#include "cuda/select/family.hpp"
#include "cuda/source/epilogue_source.hpp"
#include "emulated_tensorcore.hpp"
#include "nvrtc_test.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;

std::string repeated(const std::string& step, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += step + " ";
    return text;
}

bool calls(const std::string& epilogue, int64_t outputs) {
    return calls_epilogue(Epilogue::parse(epilogue), outputs);
}

TEST(LongEpilogue, IsCalledWhereItsCodeWouldBeLong) {
    for (const char* usual : {"", "relu", "leaky_relu(0.2)", "clamp(min=-1) div(2)", "residual_add relu"})
        EXPECT_FALSE(calls(usual, 384)) << usual;
    EXPECT_FALSE(calls("mish", 96));
    EXPECT_TRUE(calls("mish", 640));
    EXPECT_TRUE(calls("mish mish", 96));
    EXPECT_FALSE(calls(repeated("mish", 16), 1));
}

TEST(LongEpilogue, CallsItsStepsWhereTheyAreVeryMany) {
    const auto source = [](const std::string& text) { return epilogue_source(Epilogue::parse(text), DType::f32); };
    EXPECT_EQ(source(repeated("mish", 16)).find("called::"), std::string::npos);
    const std::string many = source(repeated("mish softplus(2,20) elu(1.5) add(1)", 40));
    EXPECT_NE(many.find("x = called::elu(x, 0x1.8p+0f);"), std::string::npos);
    EXPECT_NE(many.find("__noinline__ Compute softplus(Compute x, Compute a, Compute b) {"), std::string::npos);
    EXPECT_EQ(many.find("steps::mish", many.find("steps::mish") + 1), std::string::npos) << "written once";
}

/// A chain that adds a residual and is long enough to be called for any number of outputs.
TEST(LongEpilogueEmulated, IsExactOnIntegers) {
    using namespace tensorcore;
    const Epilogue epilogue = Epilogue::parse("residual_add " + repeated("mul(-1)", 1000));
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
    for (const auto& [line, engine, form, saves] : cases) {
        const Problem problem = Problem::parse(line);
        const Tiling tiling = best_tilings(problem, testing::small_hopper(), engine, form, 1).front();
        const std::string source =
            kernel_request(problem, tiling.tables, tiling.config, epilogue, {true, saves}).prelude;
        EXPECT_NE(source.find("kCallsEpilogue = true"), std::string::npos) << line;
        const testing::EmulatedTiling emulated(problem, tiling, saves, epilogue);
        ASSERT_TRUE(emulated.compile()) << line;
        EXPECT_TRUE(emulated.execute()) << line << ": " << tiling.name();
    }
}

/// Of this process, on all its cores.
double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class LongEpilogueCompile : public testing::NvrtcTest {
protected:
    /// The kernel that selection chooses, with a bias and a preactivation.
    static void expect_within_limits(const char* line, const std::string& epilogue, const Device& device) {
        constexpr double kMostSeconds = 3;
        const Problem problem = Problem::parse(line);
        const Epilogue chain = Epilogue::parse(epilogue);
        const std::string family = choose(problem, chain, device).family->name;
        const std::string where =
            std::string(line) + ", " + epilogue + ", " + family + " on sm_" + std::to_string(device.sm);
        const double start = cpu_seconds();
        if (family == "cells") {
            const CellTile tile = choose_cell_tile(problem, device.multiprocessors);
            EXPECT_EQ(compile_for(device.sm, cells_request(problem, tile, chain, {true, true})).spill_bytes, 0)
                << where;
        } else {
            const tensorcore::Engine engine = family == "mma" ? tensorcore::Engine::mma : tensorcore::Engine::wgmma;
            const tensorcore::Form form = family == "gather" ? tensorcore::Form::gathered : tensorcore::Form::streamed;
            const auto [tables, config] = tensorcore::best_tilings(problem, device, engine, form, 1).front();
            const KernelRequest request = tensorcore::kernel_request(problem, tables, config, chain, {true, true});
            testing::expect_fits(compile_for(device.sm, request), problem, engine, where);
        }
        EXPECT_LT(cpu_seconds() - start, kMostSeconds) << where;
    }
};

TEST_F(LongEpilogueCompile, TakesLessThanThreeSeconds) {
    const std::string operands = "channel_mul mish residual_add mish mish residual_mul";
    for (const Device& device : {kHopper, kAmpere}) {
        const char* many_outputs = "n8 ci8 co8 33x37x43 k1x6x7 s5x2x4 tf32 ndhwc";
        for (const std::string& chain : {std::string("softplus mish"), repeated("mish", 8), operands})
            expect_within_limits(many_outputs, chain, device);
        expect_within_limits("n2 ci64 co32 16x24x24 k3 s2 p1 op1", repeated("mish", 16), device);
        expect_within_limits("n2 ci64 co32 16x24x24 k3 s2 p1 op1 tf32", repeated("mish softplus div(3) elu(2)", 50),
                             device);
    }
}

TEST_F(LongEpilogueCompile, SoDoManyTapsOfSplitFp32) {
    expect_within_limits("n2 ci64 co64 16x32x32 k7 f32", "", kAmpere);
}

} // namespace
} // namespace tconv3d::cuda
