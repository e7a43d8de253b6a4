// Every kernel that selection chooses for the baselines is compiled, for both kinds of tensor cores, without a GPU.
#include "chosen_kernels.hpp"
#include "cuda/select/family.hpp"
#include "made_up_devices.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;

/// One line of problems/baselines.txt, on one device.
class ChosenCompile : public testing::NvrtcTest, public ::testing::WithParamInterface<Problem> {
protected:
    /// A gradient in some of the modes, each baseline in others, or in all where TCONV3D_TEST_EVERY=1 asks for them.
    static void expect_some_compile(Direction direction, const Device& device, size_t step) {
        const std::vector<Problem> modes = testing::modes(GetParam());
        const size_t every = testing::sampled_every() == 1 ? 1 : step * modes.size();
        for (size_t i = 0; i < modes.size(); ++i) {
            Problem problem = modes[i];
            problem.direction = direction;
            if ((place() + i) % every == 0) testing::expect_chosen_compiles(problem, device, i % 2 == 0);
        }
    }

    /// In each mode, with a bias in one layout and without one in the other. A kernel of bf16 and one of fp16 with the
    /// same tile differ in one word of each product: of two such, one is compiled, unless TCONV3D_TEST_EVERY=1 asks for
    /// both.
    static void expect_all_compile(const Device& device) {
        const std::vector<Problem> modes = testing::modes(GetParam());
        for (size_t i = 0; i < modes.size(); ++i)
            if (testing::sampled_every() == 1 || !has_twin(modes[i], device))
                testing::expect_chosen_compiles(modes[i], device, (i + i / 4) % 2 == 0);
    }

private:
    /// Of the problem in its file.
    static size_t place() {
        const std::vector<Problem> all = testing::read_problems("baselines.txt");
        size_t at = 0;
        while (all[at].str() != GetParam().str()) ++at;
        return at;
    }

    /// Whether the kernel of the other 16-bit type is the same and stands for this one: bf16 does in NCDHW, fp16 in
    /// channels_last_3d.
    static bool has_twin(const Problem& problem, const Device& device) {
        const DType stands = problem.channels_last() ? DType::f16 : DType::bf16;
        if (bytes_per_element(problem.dtype) != 2 || problem.dtype == stands) return false;
        const Choice mine = choose(problem, {}, device);
        const Choice other = choose(testing::with(problem, stands, problem.math, problem.layout), {}, device);
        return mine.family == other.family && mine.candidate.name == other.candidate.name;
    }
};

TEST_P(ChosenCompile, OnHopper) {
    expect_all_compile(kHopper);
}

TEST_P(ChosenCompile, OnAmpere) {
    expect_all_compile(kAmpere);
}

TEST_P(ChosenCompile, BwdDataOnHopper) {
    expect_some_compile(Direction::bwd_data, kHopper, 1);
}

TEST_P(ChosenCompile, BwdDataOnAmpere) {
    expect_some_compile(Direction::bwd_data, kAmpere, 3);
}

INSTANTIATE_TEST_SUITE_P(Baselines, ChosenCompile, ::testing::ValuesIn(testing::read_problems("baselines.txt")));

} // namespace
} // namespace tconv3d::cuda
