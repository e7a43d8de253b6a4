#include "cuda/tensorcore/any_size.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/tensorcore/gathered/cost.hpp"
#include "cuda/tensorcore/gathered/tiles.hpp"
#include "cuda/tensorcore/staging.hpp"
#include "cuda/tensorcore/streamed/cost.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// Kernels of a layer, at most: six, in NCDHW half of them for rows that TMA takes and half for others.
size_t most_kernels(const Problem& problem) {
    return problem.channels_last() ? 6 : 3;
}

/// Positions of an input plane's stage that a config's products read or that are loaded.
int64_t needed_positions(const Config& config, const TapTables& tables) {
    const int64_t products = config.gathered() ? config.products.m_tiles * config.products.columns
                                               : config.products.m_tiles * config.products.warpgroups * 64 + 1;
    const int64_t read = products + tables.halo(1) * config.row_pitch() + tables.halo(2);
    const int64_t loaded = config.tile.images * config.image_pitch() + config.plane.tail;
    return (tables.staged_planes() - 1) * config.plane.plane_pitch + std::max(loaded, read);
}

int64_t positions_of_products(const Config& config) {
    return config.products.m_tiles * (config.gathered() ? config.products.columns : 64);
}

/// Whether the kernel stores as the config would. Single voxels can be stored whatever rows are.
bool stores_alike(const Config& kernel, const Config& config) {
    if (kernel.store.way == config.store.way) return true;
    return !kernel.gathered() && kernel.store.way == Store::voxels &&
           (config.store.way == Store::pairs || config.store.way == Store::quads);
}

/// Whether a kernel differs from a config in nothing but its room, and the room is large enough but not twice as large.
bool has_room(const Config& kernel, const Config& config) {
    const auto choices = [](const Config& of) {
        return std::make_tuple(of.form, of.engine, of.input.source, of.input.steps, of.input.warps, of.weights.packing,
                               of.tile.channels, of.pipeline.retains_slices,
                               of.gathered() ? int64_t{0} : of.products.m_tiles);
    };
    return choices(kernel) == choices(config) && stores_alike(kernel, config) &&
           positions_of_products(config) <= positions_of_products(kernel) &&
           positions_of_products(kernel) < 2 * positions_of_products(config) &&
           config.input.raw_bytes <= kernel.input.raw_bytes && config.input.table_bytes <= kernel.input.table_bytes;
}

void estimate(Config& config, const Problem& problem, const TapTables& tables, const Device& device) {
    if (config.gathered()) return estimate_gathered(config, problem, tables, device.multiprocessors);
    estimate_streamed(config, problem, tables, device.multiprocessors);
}

/// The kernel with the tile of a config for which it has room; nothing where it has none after all.
std::optional<Config> with_tile(const Config& kernel, const Config& config, const Problem& problem,
                                const TapTables& tables, const Device& device) {
    Config of = kernel;
    of.tile = config.tile;
    of.plane = config.plane;
    of.plane.positions = kernel.plane.positions;
    of.input.box_rows = config.input.box_rows;
    of.input.raw_pitch = config.input.raw_pitch;
    of.products.warpgroups = config.products.warpgroups;
    if (needed_positions(of, tables) > of.plane.positions) return std::nullopt;
    estimate(of, problem, tables, device);
    return of;
}

/// The tables that a problem may be cut into, in all forms of an engine.
std::vector<TapTables> tables_of_all_forms(const Problem& problem, Engine engine) {
    std::vector<TapTables> all = all_tables(problem, engine, Form::streamed);
    if (engine == Engine::mma) return all;
    std::vector<TapTables> gathered = all_tables(problem, engine, Form::gathered);
    if (!reject_gathered(problem, gathered.front()).empty()) return all;
    for (TapTables& tables : gathered) all.push_back(std::move(tables));
    return all;
}

/// A config, and which of these tables it is made for.
struct Indexed {
    size_t tables;
    Config config;
};

/// All configs of a problem for kernels that serve any size.
struct AnySizeConfigs {
    Problem problem;
    std::vector<TapTables> tables;
    std::vector<Indexed> configs;

    AnySizeConfigs(const Problem& of, const Device& device, Engine engine)
        : problem(of), tables(tables_of_all_forms(of, engine)) {
        for (size_t i = 0; i < tables.size(); ++i)
            each_config(
                problem, tables[i], device, engine, [&](const Config& config) { configs.push_back({i, config}); },
                Sizes::any);
    }

    /// The best tile for a kernel; nothing where none of them fits.
    std::optional<Config> best_for(const Indexed& kernel, const Device& device) const {
        std::optional<Config> best;
        for (const Indexed& each : configs) {
            if (each.tables != kernel.tables || !has_room(kernel.config, each.config)) continue;
            std::optional<Config> found = with_tile(kernel.config, each.config, problem, tables[each.tables], device);
            if (found && (!best || found->schedule.clocks < best->schedule.clocks)) best = std::move(found);
        }
        return best;
    }
};

/// The same kernel with more room in each stage; nothing where shared memory has none.
std::optional<Config> with_room(Config kernel, double factor, const Problem& problem, const TapTables& tables,
                                const Device& device) {
    const auto more = [&](int64_t& of, int64_t multiple) {
        of = round_up(static_cast<int64_t>(static_cast<double>(of) * factor), multiple);
    };
    const int64_t limit = device.shared_memory_per_block;
    more(kernel.plane.positions, 8);
    more(kernel.input.raw_bytes, 128);
    more(kernel.input.table_bytes, 128);
    const bool fits = kernel.packs_own_weights()       ? set_own_weights(kernel, problem, tables, limit)
                      : kernel.pipeline.retains_slices ? set_weight_stages(kernel, problem, tables, limit)
                                                       : set_stages(kernel, problem, tables, limit);
    return fits ? std::optional<Config>(kernel) : std::nullopt;
}

/// The layer at extents that stand for all others: cubes, and what networks have beside. Rows are multiples of what TMA
/// takes where the problem's are; else they are odd or even in turn.
std::vector<Problem> references(const Problem& problem, Engine engine) {
    static const Extents kExtents[] = {{4, 4, 4},    {8, 8, 8},    {6, 12, 10},   {16, 16, 16},
                                       {12, 24, 16}, {10, 16, 96}, {24, 24, 24},  {32, 32, 32},
                                       {16, 48, 40}, {48, 40, 56}, {64, 64, 64},  {20, 96, 72},
                                       {80, 56, 88}, {96, 96, 96}, {40, 112, 60}, {128, 128, 128}};
    constexpr int64_t kFewVoxels = 32 * 32 * 32;
    const Source source = choose_source(problem, engine);
    std::vector<Problem> list;
    Problem at = problem;
    for (const Extents& extents : kExtents) {
        const bool odd = list.size() % 2 == 1;
        for (const int64_t more : {odd ? 1 : 0, odd ? 0 : 2, odd ? 2 : 1, 3}) {
            at.src = {extents[0], extents[1], extents[2] + more};
            at.batch = extents[0] * extents[1] * extents[2] <= kFewVoxels ? 2 : 1;
            try {
                at.validate();
            } catch (const Error&) {
                continue; // the output would be empty
            }
            if (choose_source(at, engine) != source) continue;
            list.push_back(at);
            break;
        }
    }
    return list;
}

/// Kernels worth considering: those of each reference's best configs, and the same with more room.
std::vector<Indexed> kernels_of(const std::vector<AnySizeConfigs>& references, const Device& device) {
    constexpr size_t kOfEach = 4;
    constexpr double kRooms[] = {1, 1.2, 1.5};
    std::vector<Indexed> kernels;
    for (const AnySizeConfigs& reference : references) {
        std::multimap<double, const Indexed*> by_clocks;
        for (const Indexed& each : reference.configs) {
            by_clocks.emplace(each.config.schedule.clocks, &each);
            if (by_clocks.size() > kOfEach) by_clocks.erase(std::prev(by_clocks.end()));
        }
        for (const auto& [clocks, each] : by_clocks) {
            for (const double room : kRooms) {
                const std::optional<Config> kernel =
                    with_room(each->config, room, reference.problem, reference.tables[each->tables], device);
                if (kernel) kernels.push_back({each->tables, *kernel});
            }
        }
    }
    return kernels;
}

/// Few of the kernels, such that the references take the least, in the geometric mean. One after another is chosen,
/// each as the best beside those before.
std::vector<Indexed> choose_kernels(const std::vector<Indexed>& kernels, const std::vector<AnySizeConfigs>& references,
                                    const Device& device, size_t most) {
    constexpr double kNone = 1e12; // clocks, where a kernel has no tile
    std::vector<std::vector<double>> clocks(kernels.size());
    for (size_t k = 0; k < kernels.size(); ++k) {
        for (const AnySizeConfigs& reference : references) {
            const std::optional<Config> best = reference.best_for(kernels[k], device);
            clocks[k].push_back(best ? std::log(best->schedule.clocks) : std::log(kNone));
        }
    }
    std::vector<Indexed> chosen;
    std::vector<double> least(references.size(), std::log(kNone));
    const auto gain = [&](size_t k) {
        double sum = 0;
        for (size_t i = 0; i < least.size(); ++i) sum += std::max(least[i] - clocks[k][i], 0.0);
        return sum;
    };
    while (chosen.size() < most) {
        size_t best = 0;
        double largest = 0;
        for (size_t k = 0; k < kernels.size(); ++k) {
            const double of = gain(k);
            if (of <= largest) continue;
            best = k;
            largest = of;
        }
        if (largest <= 0) break;
        chosen.push_back(kernels[best]);
        for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], clocks[best][i]);
    }
    return chosen;
}

std::vector<Indexed> find_layer_kernels(const Problem& problem, const Device& device, Engine engine) {
    std::vector<AnySizeConfigs> configs;
    for (const Problem& at : references(problem, engine)) configs.emplace_back(at, device, engine);
    return choose_kernels(kernels_of(configs, device), configs, device, most_kernels(problem));
}

/// All that the kernels of a layer depend on.
std::string layer_key(Problem problem, const Device& device, Engine engine) {
    const std::string rows = name(choose_source(problem, engine));
    problem.batch = 1;
    problem.src = {1, 1, 1};
    return problem.str() + " " + rows + " " + std::to_string(device.sm) + " " + std::to_string(device.multiprocessors) +
           " " + std::to_string(device.shared_memory_per_block) + (engine == Engine::mma ? " mma" : "");
}

/// Finding them takes some milliseconds, so they are kept.
std::vector<Indexed> layer_kernels(const Problem& problem, const Device& device, Engine engine) {
    constexpr size_t kMostLayers = 1024;
    static std::mutex mutex;
    static std::map<std::string, std::vector<Indexed>> found;
    const std::string key = layer_key(problem, device, engine);
    const std::lock_guard<std::mutex> lock(mutex);
    const auto known = found.find(key);
    if (known != found.end()) return known->second;
    if (found.size() >= kMostLayers) found.clear();
    return found[key] = find_layer_kernels(problem, device, engine);
}

} // namespace

std::vector<Tiling> any_size_tilings(const Problem& problem, const Device& device, Engine engine) {
    const AnySizeConfigs configs(problem, device, engine);
    std::vector<Tiling> tilings;
    for (const Indexed& kernel : layer_kernels(problem, device, engine))
        if (const std::optional<Config> config = configs.best_for(kernel, device))
            tilings.push_back({configs.tables[kernel.tables], *config});
    std::sort(tilings.begin(), tilings.end(),
              [](const Tiling& a, const Tiling& b) { return a.config.schedule.clocks < b.config.schedule.clocks; });
    return tilings;
}

} // namespace tconv3d::cuda::tensorcore
