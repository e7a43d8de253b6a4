// How long NVRTC takes for epilogues whose code at all outputs would take too long, and for many taps.
#include "cpu_seconds.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/select/family.hpp"
#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/source.hpp"
#include "made_up_devices.hpp"
#include "nvrtc_test.hpp"
#include "repeated.hpp"

namespace tconv3d::cuda {
namespace {

using testing::cpu_seconds;
using testing::kAmpere;
using testing::kHopper;
using testing::repeated;

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
            testing::expect_fits(compile_for(device.sm, request), problem, config, where);
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
