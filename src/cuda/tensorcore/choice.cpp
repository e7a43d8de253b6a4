#include "cuda/tensorcore/choice.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "cuda/tensorcore/gathered/tiles.hpp"
#include "cuda/tensorcore/streamed/tiles.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// Whether split fp32 by mma.sync has more taps than NVRTC compiles in 3 s where all are written out.
bool has_many_taps(const Problem& problem) {
    constexpr int64_t kMostTaps = 25;
    return parts(problem) == 2 && problem.kernel[1] * problem.kernel[2] > kMostTaps;
}

/// Every phase along H needs taps, or its work items would multiply nothing.
bool may_be_apart(const Axis& h, Engine engine) {
    const auto has_taps = [](const AxisPhase& phase) { return !phase.taps.empty(); };
    return h.out_stride > 1 && engine == Engine::wgmma && std::all_of(h.phases.begin(), h.phases.end(), has_taps);
}

/// The best config, found without keeping the others: a plan needs no more.
std::optional<Config> best_config(const Problem& problem, const TapTables& tables, const Device& device,
                                  Engine engine) {
    std::optional<Config> best;
    each_config(problem, tables, device, engine, [&](const Config& config) {
        if (!best || config.schedule.clocks < best->schedule.clocks) best = config;
    });
    return best;
}

std::vector<Tiling> best_tiling(const Problem& problem, const Device& device, Engine engine, Form form) {
    std::vector<Tiling> best;
    for (TapTables& tables : all_tables(problem, engine, form)) {
        const std::optional<Config> config = best_config(problem, tables, device, engine);
        if (!config) continue;
        if (!best.empty() && config->schedule.clocks >= best.front().config.schedule.clocks) continue;
        best.clear();
        best.push_back({std::move(tables), *config});
    }
    return best;
}

} // namespace

std::string Tiling::name() const {
    return config.name() + (tables.row_sets() > 1 && !config.gathered() ? ", rows apart" : "");
}

void each_config(const Problem& problem, const TapTables& tables, const Device& device, Engine engine,
                 const std::function<void(const Config&)>& keep, Sizes sizes) {
    if (tables.gathered()) return each_gathered_config(problem, tables, device, keep, sizes);
    each_streamed_config(problem, tables, device, engine, keep, sizes);
}

/// Rows together, and apart where that may be. In the gathered form they are apart if they may. Where fp32 is split
/// they are apart at stride 1 too, in passes over the taps of one row: that is less to compile. Where mma.sync splits
/// it, which is slower so, that is for kernels of many taps.
std::vector<TapTables> all_tables(const Problem& problem, Engine engine, Form form) {
    std::vector<TapTables> all;
    const IndexMap map(problem);
    const bool apart = may_be_apart(map.axes[1], engine);
    const bool by_passes = engine == Engine::wgmma ? parts(problem) == 2 : has_many_taps(problem);
    if (map.axes[1].out_stride == 1 && by_passes) {
        all.emplace_back(map, RowPhases::apart, form);
        return all;
    }
    if (form == Form::streamed || !apart) all.emplace_back(map, RowPhases::together, form);
    if (apart) all.emplace_back(map, RowPhases::apart, form);
    return all;
}

std::vector<Tiling> best_tilings(const Problem& problem, const Device& device, Engine engine, Form form, size_t most) {
    if (most == 1) return best_tiling(problem, device, engine, form);
    std::multimap<double, Tiling> by_clocks;
    for (const TapTables& tables : all_tables(problem, engine, form)) {
        std::multimap<double, Config> configs;
        each_config(problem, tables, device, engine,
                    [&](const Config& config) { configs.emplace(config.schedule.clocks, config); });
        std::set<std::string> names;
        for (const auto& [clocks, config] : configs) {
            if (names.size() == most) break;
            if (names.insert(config.name()).second) by_clocks.emplace(clocks, Tiling{tables, config});
        }
    }
    std::vector<Tiling> best;
    for (auto& [clocks, tiling] : by_clocks)
        if (best.size() < most) best.push_back(std::move(tiling));
    return best;
}

} // namespace tconv3d::cuda::tensorcore
