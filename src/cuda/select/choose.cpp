#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "cuda/select/implementation.hpp"
#include "cuda/select/tune.hpp"
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

bool has_variant(const Implementation& implementation, const Problem& problem, const Epilogue& epilogue,
                 const Device& device, const std::string& variant) {
    const std::vector<std::string> variants = implementation.variants(problem, epilogue, device);
    return std::find(variants.begin(), variants.end(), variant) != variants.end();
}

/// TCONV3D_CUDA_VARIANT, which must be one of the forced implementation's.
std::string forced_variant(const Implementation& forced, const Problem& problem, const Epilogue& epilogue,
                           const Device& device) {
    const char* variant = std::getenv("TCONV3D_CUDA_VARIANT");
    if (variant == nullptr || *variant == '\0') return "";
    if (has_variant(forced, problem, epilogue, device, variant)) return variant;
    std::string known;
    for (const std::string& name : forced.variants(problem, epilogue, device))
        known += (known.empty() ? "" : "; ") + (name.empty() ? "none" : name);
    throw Error(std::string("TCONV3D_CUDA_VARIANT=") + variant + " names no variant of " + forced.name + " for " +
                problem.str() + "; there are: " + known);
}

Choice choose_forced(const Implementation& forced, const Problem& problem, const Epilogue& epilogue,
                     const Device& device) {
    const std::string setting = std::string("TCONV3D_CUDA_IMPL=") + forced.name;
    const std::string reason = forced.reject(problem, epilogue, device);
    if (!reason.empty()) throw Error(setting + " cannot take " + problem.str() + " on " + device.name + ": " + reason);
    Choice choice{&forced, {}, forced_variant(forced, problem, epilogue, device)};
    for (const Implementation& implementation : implementation_list())
        if (&implementation != &forced) choice.rejections.push_back({implementation.name, setting});
    return choice;
}

/// An implementation's answer: a reason, or a cost.
struct Answer {
    const Implementation* implementation;
    std::string reason;
    double cost;
};

std::vector<Answer> answers(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    std::vector<Answer> list;
    for (const Implementation& implementation : implementation_list()) {
        std::string reason = implementation.reject(problem, epilogue, device);
        const double cost = reason.empty() ? implementation.cost(problem, epilogue, device) : 0;
        list.push_back({&implementation, std::move(reason), cost});
    }
    return list;
}

/// The one with the least cost.
const Answer& least_cost(const std::vector<Answer>& list, const Problem& problem, const Device& device) {
    const Answer* best = nullptr;
    for (const Answer& answer : list)
        if (answer.reason.empty() && (best == nullptr || answer.cost < best->cost)) best = &answer;
    if (best != nullptr) return *best;
    std::string reasons;
    for (const Answer& answer : list) reasons += std::string("; ") + answer.implementation->name + ": " + answer.reason;
    throw Error("no CUDA implementation takes " + problem.str() + " on " + device.name + reasons);
}

/// The answer that is taken, and how.
struct Taken {
    const Answer* answer;
    std::string variant;
    bool tuned;

    /// Why another one is not, which accepts the problem.
    std::string why_not(const Answer& other) const {
        const std::string name = answer->implementation->name;
        if (tuned) return "slower than " + name + " when this problem was tuned";
        return "estimated " + microseconds(other.cost) + ", slower than " + name + "'s " + microseconds(answer->cost);
    }
};

/// What tuning found, if it is still to be had, else the least cost.
Taken take(const std::vector<Answer>& list, const Problem& problem, const Epilogue& epilogue, const Device& device) {
    if (const std::optional<Candidate> tuned = remembered(problem, device)) {
        for (const Answer& answer : list)
            if (answer.implementation->name == tuned->implementation && answer.reason.empty() &&
                has_variant(*answer.implementation, problem, epilogue, device, tuned->variant))
                return {&answer, tuned->variant, true};
    }
    return {&least_cost(list, problem, device), "", false};
}

} // namespace

Choice choose(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    if (const Implementation* forced = forced_implementation())
        return choose_forced(*forced, problem, epilogue, device);
    const std::vector<Answer> list = answers(problem, epilogue, device);
    const Taken taken = take(list, problem, epilogue, device);
    Choice choice{taken.answer->implementation, {}, taken.variant};
    for (const Answer& answer : list) {
        if (&answer == taken.answer) continue;
        choice.rejections.push_back(
            {answer.implementation->name, answer.reason.empty() ? taken.why_not(answer) : answer.reason});
    }
    return choice;
}

std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    // How far estimates may be off: short ones by more of their time.
    constexpr double kFactor = 1.5, kMicroseconds = 10;
    std::multimap<double, const Implementation*> by_cost;
    for (const Answer& answer : answers(problem, epilogue, device))
        if (answer.reason.empty()) by_cost.emplace(answer.cost, answer.implementation);
    std::vector<Candidate> all;
    for (const auto& [cost, implementation] : by_cost) {
        if (cost > kFactor * by_cost.begin()->first + kMicroseconds) break;
        for (std::string& variant : implementation->variants(problem, epilogue, device))
            all.push_back({implementation->name, std::move(variant)});
    }
    return all;
}

std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, int device) {
    return candidates(problem, epilogue, cuda::device(device));
}

} // namespace tconv3d::cuda
