#include "cuda/tensorcore/any_size.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/cuts.hpp"
#include "core/lasting.hpp"
#include "cuda/select/layer.hpp"
#include "cuda/tensorcore/gathered/cost.hpp"
#include "cuda/tensorcore/gathered/tiles.hpp"
#include "cuda/tensorcore/staging.hpp"
#include "cuda/tensorcore/streamed/cost.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// Kernels of a layer, at most: six. In NCDHW two of them are for rows that TMA takes, and four for all others: most
/// sizes have such rows, of more different kinds.
size_t most_kernels(const Problem& problem, Source source) {
    if (!has_channel_planes(problem)) return 6;
    return source == Source::rows ? 2 : 4;
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

/// Whether the kernel can store what the config would. Single voxels can be stored whatever rows are.
bool can_store(const Config& kernel, const Config& config) {
    return kernel.store.way == config.store.way || kernel.store.way == Store::voxels;
}

/// Whether a kernel differs from a config in nothing but its room and how it stores, and the room is large enough.
bool has_room(const Config& kernel, const Config& config) {
    const auto choices = [](const Config& of) {
        return std::make_tuple(of.form, of.engine, of.input.source, of.input.steps, of.input.warps, of.weights.packing,
                               of.tile.channels, of.pipeline.retains_slices,
                               of.gathered() ? int64_t{0} : of.products.m_tiles);
    };
    return choices(kernel) == choices(config) && can_store(kernel, config) &&
           positions_of_products(config) <= positions_of_products(kernel) &&
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
            const std::optional<Config> found =
                with_tile(kernel.config, each.config, problem, tables[each.tables], device);
            if (found && (!best || found->schedule.clocks < best->schedule.clocks)) best = found;
        }
        return best;
    }
};

/// The kernel with more room in each stage; nothing where shared memory has none.
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

/// The clocks of each kernel at each reference.
std::vector<std::vector<double>> clocks_of(const std::vector<Indexed>& kernels,
                                           const std::vector<AnySizeConfigs>& references, const Device& device) {
    std::vector<std::vector<double>> clocks(kernels.size());
    for (size_t i = 0; i < kernels.size(); ++i) {
        for (const AnySizeConfigs& reference : references) {
            const std::optional<Config> best = reference.best_for(kernels[i], device);
            clocks[i].push_back(best ? best->schedule.clocks : kNoCost);
        }
    }
    return clocks;
}

std::vector<Indexed> find_layer_kernels(const Problem& problem, const Device& device, Engine engine) {
    const Source source = choose_source(problem, engine);
    std::vector<AnySizeConfigs> references;
    for (const Problem& at :
         layer_references(problem, [&](const Problem& other) { return choose_source(other, engine) == source; }))
        references.emplace_back(at, device, engine);
    const std::vector<Indexed> kernels = kernels_of(references, device);
    std::vector<Indexed> chosen;
    for (const size_t i : choose_few(clocks_of(kernels, references, device), most_kernels(problem, source)))
        chosen.push_back(kernels[i]);
    return chosen;
}

std::vector<Indexed> layer_kernels(const Problem& problem, const Device& device, Engine engine) {
    static Lasting<FoundLayers<std::vector<Indexed>>> found;
    const std::string rows = name(choose_source(problem, engine));
    const std::string key = layer_key(problem, device, rows + (engine == Engine::mma ? " mma" : ""));
    return found->get(key, [&] { return find_layer_kernels(problem, device, engine); });
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
