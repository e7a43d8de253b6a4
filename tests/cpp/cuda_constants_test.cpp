// The constants that the host prints, the list that tells their meaning, and the kernels that use them agree.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cuda/cells/bwd_weight.hpp"
#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "cuda/epilogue_bwd/epilogue_bwd.hpp"
#include "cuda/outer/outer.hpp"
#include "cuda/reduction/reduction.hpp"
#include "cuda/source/constants.hpp"
#include "cuda/splits/add_splits.hpp"
#include "cuda/sweep/sweep.hpp"
#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/pack.hpp"
#include "cuda/tensorcore/source.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kHopper;

/// A name of one dimension as that of D.
std::string as_listed(const std::string& name, const std::set<std::string>& listed) {
    const char last = name.back();
    if (listed.count(name) == 0 && (last == 'H' || last == 'W')) return name.substr(0, name.size() - 1) + "D";
    return name;
}

std::set<std::string> listed_names() {
    std::set<std::string> names;
    for (const ConstantMeaning& constant : constant_meanings()) names.insert(constant.name);
    return names;
}

void add_names(std::set<std::string>& names, const std::string& prelude) {
    static const std::regex kDefinition("constexpr [A-Za-z ]+ (k[A-Z]\\w*)(\\[\\])? = ");
    for (std::sregex_iterator at(prelude.begin(), prelude.end(), kDefinition), end; at != end; ++at)
        names.insert((*at)[1]);
}

std::string cells_prelude(const Problem& problem) {
    if (problem.direction == Direction::bwd_weight)
        return cells_bwd_weight_request(problem, choose_cell_weight_tile(problem, kHopper.multiprocessors)).prelude;
    return cells_request(problem, choose_cell_tile(problem, kHopper.multiprocessors), {}, {}).prelude;
}

/// Of all kinds of kernels, for some problems.
std::set<std::string> printed_names() {
    std::set<std::string> names;
    for (const char* line : {"n2 ci16 co16 5x6x8 k3 s2 p1 tf32", "n2 ci16 co16 5x6x8 k3 p1 bf16 ndhwc"}) {
        const Problem problem = Problem::parse(line);
        for (const tensorcore::Form form : {tensorcore::Form::streamed, tensorcore::Form::gathered}) {
            const auto [tables, config] =
                tensorcore::best_tilings(problem, kHopper, tensorcore::Engine::wgmma, form, 1).front();
            add_names(names, tensorcore::kernel_request(problem, tables, config, {}, {}).prelude);
            const tensorcore::PackParcel parcel = tensorcore::pack_parcel(problem, config, kHopper);
            add_names(names, tensorcore::pack_request(problem, tables, config, parcel).prelude);
        }
        add_names(names, epilogue_bwd_request(problem, Epilogue::parse("channel_mul relu"), true).prelude);
        add_names(names, epilogue_bwd_sums_request(problem).prelude);
        for (const Direction direction : {Direction::fwd, Direction::bwd_data, Direction::bwd_weight}) {
            Problem directed = problem;
            directed.direction = direction;
            add_names(names, direct_request(directed, {}, {}).prelude);
            add_names(names, cells_prelude(directed));
        }
        const ReductionTile tile = best_reduction_tiles(problem, kHopper, 1).front();
        for (const KernelRequest& request :
             {reduction_request(problem, tile), reduction_bias_request(problem), add_splits_request(problem)})
            add_names(names, request.prelude);
        add_names(names, sweep_request(problem, best_sweep_tiles(problem, kHopper, 1).front()).prelude);
    }
    const Problem outer = testing::parse_bwd_weight("ci64 co16 4x4x8 k3 bf16 ndhwc");
    add_names(names, outer_request(outer, best_outer_tiles(outer, kHopper, 1).front()).prelude);
    return names;
}

std::string kernel_text() {
    std::ostringstream text;
    for (const auto& file : std::filesystem::recursive_directory_iterator(TCONV3D_KERNELS))
        if (file.is_regular_file()) text << std::ifstream(file.path()).rdbuf();
    return text.str();
}

TEST(Constants, AreListedOnceWithAMeaning) {
    EXPECT_EQ(listed_names().size(), constant_meanings().size());
    for (const ConstantMeaning& constant : constant_meanings())
        EXPECT_GT(std::string(constant.meaning).size(), 3U) << constant.name;
}

TEST(Constants, AllThatArePrintedAreListed) {
    const std::set<std::string> listed = listed_names();
    std::set<std::string> printed;
    for (const std::string& name : printed_names()) printed.insert(as_listed(name, listed));
    for (const std::string& name : printed) EXPECT_EQ(listed.count(name), 1U) << name << " has no meaning";
    for (const std::string& name : listed) EXPECT_EQ(printed.count(name), 1U) << name << " is not printed";
}

TEST(Constants, AllAreUsedByAKernel) {
    const std::string text = kernel_text();
    std::set<std::string> used;
    static const std::regex kWord("\\bk[A-Z]\\w*");
    for (std::sregex_iterator at(text.begin(), text.end(), kWord), end; at != end; ++at)
        used.insert(as_listed((*at)[0], listed_names()));
    for (const ConstantMeaning& constant : constant_meanings())
        EXPECT_EQ(used.count(constant.name), 1U) << constant.name << " is used by no kernel";
}

} // namespace
} // namespace tconv3d::cuda
