// Kernels for the architectures between and after those of chosen_test.cpp, as far as the NVRTC at hand knows them.
#include "chosen_kernels.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

/// The name of a device model, which stands for its architecture.
class ArchitectureCompile : public testing::NvrtcTest, public ::testing::WithParamInterface<const char*> {
protected:
    void SetUp() override {
        NvrtcTest::SetUp();
        if (IsSkipped()) return;
        const std::string reason = reject_architecture(device_model(GetParam()).sm);
        if (!reason.empty()) GTEST_SKIP() << reason;
    }
};

/// In all directions and modes.
std::vector<Problem> all_baselines() {
    std::vector<Problem> all;
    for (const Problem& listed : testing::read_problems("baselines.txt"))
        for (const Direction direction : {Direction::fwd, Direction::bwd_data, Direction::bwd_weight})
            for (Problem problem : testing::modes(listed)) {
                problem.direction = direction;
                all.push_back(problem);
            }
    return all;
}

/// One in each direction, other ones for each architecture, unless TCONV3D_TEST_EVERY=1 asks for all.
TEST_P(ArchitectureCompile, TakesBaselines) {
    const Device device = device_model(GetParam());
    const std::vector<Problem> all = all_baselines();
    const size_t step = testing::sampled_every() == 1 ? 1 : all.size() / 3 + 1, first = device.sm % step;
    for (size_t i = first; i < all.size(); i += step) testing::expect_chosen_compiles(all[i], device, i % 2 == 0);
}

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureCompile,
                         ::testing::Values("t4", "rtx3090", "rtx4090", "b200", "b300", "rtx5090", "gb10"));

using TuringCompile = testing::NvrtcTest;

/// Below compute capability 8.0 no instruction rounds to bf16.
TEST_F(TuringCompile, TakesEveryDType) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
        Problem problem = Problem::parse("n2 ci8 co8 16x16x16 k2 s2 g8");
        problem.dtype = dtype;
        const CellTile tile = choose_cell_tile(problem, device_model("t4").multiprocessors);
        EXPECT_EQ(compile_for(75, cells_request(problem, tile, {}, {true, false})).spill_bytes, 0) << name(dtype);
        EXPECT_EQ(compile_for(75, direct_request(problem, {}, {true, false})).spill_bytes, 0) << name(dtype);
    }
}

} // namespace
} // namespace tconv3d::cuda
