// Every kernel that selection chooses for the baselines is compiled, for both kinds of tensor cores, without a GPU.
#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/select/family.hpp"
#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/pack.hpp"
#include "cuda/tensorcore/source.hpp"
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
            if ((place() + i) % every == 0) expect_compiles(problem, device, i % 2 == 0);
        }
    }

    /// In each mode, with a bias in one layout and without one in the other. A kernel of bf16 and one of fp16 with the
    /// same tile differ in one word of each product: of two such, one is compiled, unless TCONV3D_TEST_EVERY=1 asks for
    /// both.
    static void expect_all_compile(const Device& device) {
        const std::vector<Problem> modes = testing::modes(GetParam());
        for (size_t i = 0; i < modes.size(); ++i)
            if (testing::sampled_every() == 1 || !has_twin(modes[i], device))
                expect_compiles(modes[i], device, (i + i / 4) % 2 == 0);
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

    static void expect_compiles(const Problem& problem, const Device& device, bool has_bias) {
        const std::string name = choose(problem, {}, device).family->name;
        const std::string where = name + " for " + problem.str() + ", sm_" + std::to_string(device.sm);
        if (name == "cells") {
            const CellTile tile = choose_cell_tile(problem, device.multiprocessors);
            constexpr int64_t kAddresses = 64; // of what a thread of many outputs loads, some may not fit
            expect_spills(device, cells_request(problem, tile, {}, {has_bias, false}), kAddresses, where);
        } else if (name == "direct") {
            expect_spills(device, direct_request(problem, {}, {has_bias, false}), 0, where);
        } else {
            expect_tensor_cores(problem, device, name, has_bias, where);
        }
    }

    static Compiled compile_within_limits(const Device& device, const KernelRequest& request,
                                          const std::string& where) {
        const Compiled kernel = compile_for(device.sm, request);
        EXPECT_LE(kernel.shared_bytes + request.dynamic_shared_bytes, device.shared_memory_per_block) << where;
        return kernel;
    }

    static void expect_spills(const Device& device, const KernelRequest& request, int64_t most,
                              const std::string& where) {
        EXPECT_LE(compile_within_limits(device, request, where).spill_bytes, most) << where;
    }

    static void expect_tensor_cores(const Problem& problem, const Device& device, const std::string& name,
                                    bool has_bias, const std::string& where) {
        const tensorcore::Engine engine = name == "mma" ? tensorcore::Engine::mma : tensorcore::Engine::wgmma;
        const tensorcore::Form form = name == "gather" ? tensorcore::Form::gathered : tensorcore::Form::streamed;
        const auto [tables, config] = tensorcore::best_tilings(problem, device, engine, form, 1).front();
        const std::string what = where + ", " + config.name();
        const KernelRequest request = tensorcore::kernel_request(problem, tables, config, {}, {has_bias, false});
        testing::expect_fits(compile_within_limits(device, request, what), problem, config, what);
        if (!config.packs_own_weights()) {
            const tensorcore::PackParcel parcel = tensorcore::pack_parcel(problem, config, device);
            expect_spills(device, tensorcore::pack_request(problem, tables, config, parcel), 0,
                          "the packing of " + what);
        }
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
