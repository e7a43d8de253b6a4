#include "chosen_kernels.hpp"

#include "cuda/cells/bwd_weight.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/reduction/reduction.hpp"
#include "cuda/select/family.hpp"
#include "cuda/sweep/sweep.hpp"
#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/pack.hpp"
#include "cuda/tensorcore/source.hpp"
#include "nvrtc_test.hpp"

namespace tconv3d::testing {

using namespace cuda;

namespace {

Compiled compile_within_limits(const Device& device, const KernelRequest& request, const std::string& where) {
    const Compiled kernel = compile_for(device.sm, request);
    EXPECT_LE(kernel.shared_bytes + request.dynamic_shared_bytes, device.shared_memory_per_block) << where;
    EXPECT_EQ(kernel.log.find("warning"), std::string::npos) << where << "\n" << kernel.log;
    EXPECT_EQ(kernel.log.find("serialized"), std::string::npos) << where << "\n" << kernel.log;
    return kernel;
}

void expect_spills(const Device& device, const KernelRequest& request, int64_t most, const std::string& where) {
    EXPECT_LE(compile_within_limits(device, request, where).spill_bytes, most) << where;
}

void expect_cells(const Problem& problem, const Device& device, bool has_bias, const std::string& where) {
    if (problem.direction == Direction::bwd_weight) {
        const CellWeightTile tile = choose_cell_weight_tile(problem, device.multiprocessors);
        expect_spills(device, cells_bwd_weight_request(problem, tile), 0, where);
        return;
    }
    const CellTile tile = choose_cell_tile(problem, device.multiprocessors);
    constexpr int64_t kAddresses = 64; // of what a thread of many outputs loads, some may not fit
    expect_spills(device, cells_request(problem, tile, {}, {has_bias, false}), kAddresses, where);
}

void expect_tensor_cores(const Problem& problem, const Device& device, const std::string& name, bool has_bias,
                         const std::string& where) {
    const tensorcore::Engine engine = name == "mma" ? tensorcore::Engine::mma : tensorcore::Engine::wgmma;
    const tensorcore::Form form = name == "gather" ? tensorcore::Form::gathered : tensorcore::Form::streamed;
    const auto [tables, config] = tensorcore::best_tilings(problem, device, engine, form, 1).front();
    const std::string what = where + ", " + config.name();
    const KernelRequest request = tensorcore::kernel_request(problem, tables, config, {}, {has_bias, false});
    expect_fits(compile_within_limits(device, request, what), problem, config, what);
    if (!config.packs_own_weights()) {
        const tensorcore::PackParcel parcel = tensorcore::pack_parcel(problem, config, device);
        expect_spills(device, tensorcore::pack_request(problem, tables, config, parcel), 0, "the packing of " + what);
    }
}

} // namespace

void expect_chosen_compiles(const Problem& problem, const Device& device, bool has_bias) {
    const std::string name = choose(problem, {}, device).family->name;
    const std::string where = name + " for " + problem.str() + ", sm_" + std::to_string(device.sm);
    if (name == "cells")
        expect_cells(problem, device, has_bias, where);
    else if (name == "direct")
        expect_spills(device, direct_request(problem, {}, {has_bias, false}), 0, where);
    else if (name == "sweep")
        expect_spills(device, sweep_request(problem, best_sweep_tiles(problem, device, 1).front()), 0, where);
    else if (name == "reduce")
        expect_spills(device, reduction_request(problem, best_reduction_tiles(problem, device, 1).front()), 0, where);
    else
        expect_tensor_cores(problem, device, name, has_bias, where);
}

} // namespace tconv3d::testing
