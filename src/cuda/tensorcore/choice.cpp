#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cuda/tensorcore/config.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {

namespace {

/// Every phase along H needs taps, or its work items would multiply nothing.
bool may_be_apart(const Problem& problem, StreamEngine engine) {
    if (problem.stride[1] == 1 || engine != StreamEngine::wgmma) return false;
    const StreamTables tables(problem, StreamRows::apart);
    for (size_t i = 1; i < tables.row_sets.size(); ++i) {
        if (tables.row_sets[i].first_pass == tables.row_sets[i - 1].first_pass) return false;
    }
    return tables.row_sets.back().first_pass < tables.pass_count();
}

/// Rows together, and apart where that may be. Where sums are gathered, they are apart if they may. Where fp32 is split
/// they are apart at stride 1 too, in passes over the taps of one row: that is less to compile.
std::vector<StreamTables> all_tables(const Problem& problem, StreamEngine engine, StreamForm form) {
    std::vector<StreamTables> all;
    const bool apart = may_be_apart(problem, engine);
    if (problem.stride[1] == 1 && engine == StreamEngine::wgmma && stream_parts(problem) == 2) {
        all.emplace_back(problem, StreamRows::apart, form);
        return all;
    }
    if (form == StreamForm::scatter || !apart) all.emplace_back(problem, StreamRows::together, form);
    if (apart) all.emplace_back(problem, StreamRows::apart, form);
    return all;
}

StreamChoice choose_anew(const Problem& problem, const Device& device, StreamEngine engine, StreamForm form) {
    std::vector<StreamChoice> choices;
    for (StreamTables& tables : all_tables(problem, engine, form)) {
        const StreamTile tile = choose_stream_tile(problem, tables, device, engine);
        choices.push_back({std::move(tables), tile});
    }
    const auto better = [](const StreamChoice& a, const StreamChoice& b) {
        return a.tile.clocks > 0 && (b.tile.clocks <= 0 || a.tile.clocks < b.tile.clocks);
    };
    return *std::min_element(choices.begin(), choices.end(), better);
}

/// To reject a problem, to estimate and to prepare it each ask for the same choice, which takes a millisecond.
struct LastChoice {
    Problem problem;
    Device device;
    StreamChoice choice;
};

/// Whether two GPUs are the same in all that a tile depends on.
bool has_limits_of(const Device& a, const Device& b) {
    return a.sm == b.sm && a.multiprocessors == b.multiprocessors &&
           a.shared_memory_per_block == b.shared_memory_per_block;
}

} // namespace

std::string StreamChoice::name() const {
    return tile.name() + (tables.row_sets.size() > 1 && !tile.gathered ? ", rows apart" : "");
}

StreamTile choose_stream_tile(const Problem& problem, const StreamTables& tables, const Device& device,
                              StreamEngine engine) {
    StreamTile best{};
    each_stream_tile(problem, tables, device, engine, [&](const StreamTile& tile) {
        if (best.clocks <= 0 || tile.clocks < best.clocks) best = tile;
    });
    return best;
}

StreamChoice choose_stream(const Problem& problem, const Device& device, StreamEngine engine, StreamForm form) {
    thread_local std::map<std::pair<StreamEngine, StreamForm>, LastChoice> last;
    const std::pair kind(engine, form);
    const auto known = last.find(kind);
    if (known != last.end() && known->second.problem == problem && has_limits_of(known->second.device, device))
        return known->second.choice;
    StreamChoice choice = choose_anew(problem, device, engine, form);
    last.insert_or_assign(kind, LastChoice{problem, device, choice});
    return choice;
}

std::vector<StreamChoice> stream_candidates(const Problem& problem, const Device& device, StreamEngine engine,
                                            StreamForm form, size_t most) {
    std::multimap<double, StreamChoice> by_clocks;
    for (const StreamTables& tables : all_tables(problem, engine, form)) {
        std::multimap<double, StreamTile> tiles;
        each_stream_tile(problem, tables, device, engine,
                         [&](const StreamTile& tile) { tiles.emplace(tile.clocks, tile); });
        std::set<std::string> names;
        for (const auto& [clocks, tile] : tiles) {
            if (names.size() == most) break;
            if (names.insert(tile.name()).second) by_clocks.emplace(clocks, StreamChoice{tables, tile});
        }
    }
    std::vector<StreamChoice> candidates;
    for (auto& [clocks, choice] : by_clocks)
        if (candidates.size() < most) candidates.push_back(std::move(choice));
    return candidates;
}

StreamChoice find_stream(const Problem& problem, const Device& device, StreamEngine engine, StreamForm form,
                         const std::string& name) {
    if (name.empty()) return choose_stream(problem, device, engine, form);
    for (StreamChoice& candidate : stream_candidates(problem, device, engine, form))
        if (candidate.name() == name) return std::move(candidate);
    throw Error("no tile '" + name + "' is among the best estimated ones for " + problem.str());
}

} // namespace tconv3d::cuda
