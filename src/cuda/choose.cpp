#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cuda/implementation.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

/// The implementation that TCONV3D_CUDA_IMPL names; null when none is forced.
const Implementation* forced_implementation() {
    const char* forced = std::getenv("TCONV3D_CUDA_IMPL");
    if (forced == nullptr || *forced == '\0') return nullptr;
    std::string known;
    for (const Implementation& implementation : implementation_list()) {
        if (std::string_view(forced) == implementation.name) return &implementation;
        known += std::string(known.empty() ? "" : ", ") + implementation.name;
    }
    throw Error(std::string("TCONV3D_CUDA_IMPL=") + forced + " names no implementation; there are: " + known);
}

std::string microseconds(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g µs", value);
    return text;
}

Choice choose_forced(const Implementation& forced, const Problem& problem, const Epilogue& epilogue,
                     const Device& device) {
    const std::string setting = std::string("TCONV3D_CUDA_IMPL=") + forced.name;
    const std::string reason = forced.reject(problem, epilogue, device);
    if (!reason.empty()) throw Error(setting + " cannot take " + problem.str() + " on " + device.name + ": " + reason);
    Choice choice{&forced, {}};
    for (const Implementation& implementation : implementation_list())
        if (&implementation != &forced) choice.rejections.push_back({implementation.name, setting});
    return choice;
}

/// An implementation's answer: a reason, or a cost.
struct Candidate {
    const Implementation* implementation;
    std::string reason;
    double cost;
};

std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    std::vector<Candidate> list;
    for (const Implementation& implementation : implementation_list()) {
        std::string reason = implementation.reject(problem, epilogue, device);
        const double cost = reason.empty() ? implementation.cost(problem, epilogue, device) : 0;
        list.push_back({&implementation, std::move(reason), cost});
    }
    return list;
}

} // namespace

Choice choose(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    if (const Implementation* forced = forced_implementation())
        return choose_forced(*forced, problem, epilogue, device);
    const std::vector<Candidate> list = candidates(problem, epilogue, device);
    const Candidate* best = nullptr;
    for (const Candidate& candidate : list)
        if (candidate.reason.empty() && (best == nullptr || candidate.cost < best->cost)) best = &candidate;
    if (best == nullptr) {
        std::string reasons;
        for (const Candidate& candidate : list)
            reasons += std::string("; ") + candidate.implementation->name + ": " + candidate.reason;
        throw Error("no CUDA implementation takes " + problem.str() + " on " + device.name + reasons);
    }
    Choice choice{best->implementation, {}};
    for (const Candidate& candidate : list) {
        if (&candidate == best) continue;
        const std::string slower = "estimated " + microseconds(candidate.cost) + ", slower than " +
                                   best->implementation->name + "'s " + microseconds(best->cost);
        choice.rejections.push_back(
            {candidate.implementation->name, candidate.reason.empty() ? slower : candidate.reason});
    }
    return choice;
}

} // namespace tconv3d::cuda
