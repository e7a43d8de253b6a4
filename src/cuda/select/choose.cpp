#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/number_text.hpp"
#include "cuda/select/family.hpp"
#include "cuda/select/tune.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

/// The family that TCONV3D_CUDA_IMPL names; null when none is forced.
const Family* forced_family() {
    const char* forced = std::getenv("TCONV3D_CUDA_IMPL");
    if (forced == nullptr || *forced == '\0') return nullptr;
    std::string known;
    for (const Family& family : families()) {
        if (std::string_view(forced) == family.name) return &family;
        known += std::string(known.empty() ? "" : ", ") + family.name;
    }
    throw Error(std::string("TCONV3D_CUDA_IMPL=") + forced + " names no implementation; there are: " + known);
}

/// Whether TCONV3D_CUDA_SIZES asks for kernels that serve any size.
bool wants_any_size() {
    const char* sizes = std::getenv("TCONV3D_CUDA_SIZES");
    if (sizes == nullptr || *sizes == '\0' || std::string_view(sizes) == "one") return false;
    if (std::string_view(sizes) == "any") return true;
    throw Error(std::string("TCONV3D_CUDA_SIZES=") + sizes + " is neither any nor one");
}

std::string microseconds(double value) {
    return with_digits(value, 4) + " µs";
}

const KernelCandidate* find(const Answer& answer, std::string_view name) {
    const auto has_name = [&](const KernelCandidate& candidate) { return candidate.name == name; };
    const auto found = std::find_if(answer.candidates.begin(), answer.candidates.end(), has_name);
    return found == answer.candidates.end() ? nullptr : &*found;
}

/// The candidate of the forced family: the best, or the one that TCONV3D_CUDA_VARIANT names.
KernelCandidate forced_candidate(const Family& forced, const Answer& answer, const Problem& problem) {
    const char* variant = std::getenv("TCONV3D_CUDA_VARIANT");
    if (variant == nullptr || *variant == '\0') return answer.candidates.front();
    if (const KernelCandidate* found = find(answer, variant)) return *found;
    std::string known;
    for (const KernelCandidate& candidate : answer.candidates)
        known += (known.empty() ? "" : "; ") + (candidate.name.empty() ? "none" : candidate.name);
    throw Error(std::string("TCONV3D_CUDA_VARIANT=") + variant + " names no variant of " + forced.name + " for " +
                problem.str() + "; there are: " + known);
}

Choice choose_forced(const Family& forced, const Problem& problem, const Epilogue& epilogue, const Device& device) {
    const std::string setting = std::string("TCONV3D_CUDA_IMPL=") + forced.name;
    const char* variant = std::getenv("TCONV3D_CUDA_VARIANT");
    const bool all = variant != nullptr && *variant != '\0';
    const Answer answer = forced.answer({problem, epilogue, device, all ? kMostCandidates : 1, wants_any_size()});
    if (!answer.accepts())
        throw Error(setting + " cannot take " + problem.str() + " on " + device.name + ": " + answer.reason);
    Choice choice{&forced, forced_candidate(forced, answer, problem), {}};
    for (const Family& family : families())
        if (&family != &forced) choice.rejections.push_back({family.name, setting});
    return choice;
}

/// A family's answer.
struct Answered {
    const Family* family;
    Answer answer;

    double cost() const { return answer.candidates.front().microseconds; }
};

/// Why the family is not asked, or not any more; empty when it is.
std::string reject_unasked(const Family& family, const std::vector<Rejection>& failed) {
    if (family.only_forced)
        return std::string("has not run on a GPU yet: only TCONV3D_CUDA_IMPL=") + family.name + " takes it";
    constexpr size_t kMostFailures = 2;
    for (const Rejection& each : failed)
        if (each.implementation == family.name) return "has failed: " + each.reason;
    const bool is_last = &family == &families().back();
    if (failed.size() >= kMostFailures && !is_last)
        return "not tried, because " + std::to_string(failed.size()) + " others have failed";
    return "";
}

/// The one with the least estimate.
const Answered& least_cost(const std::vector<Answered>& list, const Problem& problem, const Device& device) {
    const Answered* best = nullptr;
    for (const Answered& each : list)
        if (each.answer.accepts() && (best == nullptr || each.cost() < best->cost())) best = &each;
    if (best != nullptr) return *best;
    std::string reasons;
    for (const Answered& each : list) reasons += std::string("; ") + each.family->name + ": " + each.answer.reason;
    throw KernelFailure("no CUDA implementation takes " + problem.str() + " on " + device.name + reasons);
}

/// The answer that is taken, and how.
struct Taken {
    const Answered* answered;
    const KernelCandidate* candidate;
    bool tuned;

    /// Why another one is not, which accepts the problem.
    std::string why_not(const Answered& other) const {
        const std::string name = answered->family->name;
        if (tuned) return "slower than " + name + " when this problem was tuned";
        return "estimated " + microseconds(other.cost()) + ", slower than " + name + "'s " +
               microseconds(candidate->microseconds);
    }
};

/// What tuning found, if it is still to be had, else the least estimate.
Taken take(const std::vector<Answered>& list, const std::optional<Candidate>& tuned, const Problem& problem,
           const Device& device) {
    for (const Answered& each : list) {
        if (!tuned || each.family->name != tuned->implementation || !each.answer.accepts()) continue;
        if (const KernelCandidate* found = find(each.answer, tuned->variant)) return {&each, found, true};
    }
    const Answered& best = least_cost(list, problem, device);
    return {&best, &best.answer.candidates.front(), false};
}

} // namespace

Choice choose(const Problem& problem, const Epilogue& epilogue, const Device& device,
              const std::vector<Rejection>& failed) {
    if (const Family* forced = forced_family()) return choose_forced(*forced, problem, epilogue, device);
    const std::optional<Candidate> tuned = remembered(problem, device);
    const bool any_size = wants_any_size();
    std::vector<Answered> list;
    for (const Family& family : families()) {
        // All candidates only where one of them was remembered: to list them takes longer than to find the best.
        const size_t most = tuned && tuned->implementation == family.name ? kMostCandidates : 1;
        std::string reason = reject_unasked(family, failed);
        list.push_back({&family, reason.empty() ? family.answer({problem, epilogue, device, most, any_size})
                                                : Answer{std::move(reason), {}}});
    }
    const Taken taken = take(list, tuned, problem, device);
    Choice choice{taken.answered->family, *taken.candidate, {}};
    for (const Answered& each : list) {
        if (&each == taken.answered) continue;
        choice.rejections.push_back(
            {each.family->name, each.answer.accepts() ? taken.why_not(each) : each.answer.reason});
    }
    return choice;
}

std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    // How far estimates may be off: short ones by more of their time.
    constexpr double kFactor = 1.5, kMicroseconds = 10;
    std::multimap<double, Answered> by_cost;
    for (const Family& family : families()) {
        if (family.only_forced) continue;
        Answered answered{&family, family.answer({problem, epilogue, device, kMostCandidates})};
        if (answered.answer.accepts()) by_cost.emplace(answered.cost(), std::move(answered));
    }
    std::vector<Candidate> all;
    for (const auto& [cost, answered] : by_cost) {
        if (cost > kFactor * by_cost.begin()->first + kMicroseconds) break;
        for (const KernelCandidate& candidate : answered.answer.candidates)
            all.push_back({answered.family->name, candidate.name});
    }
    return all;
}

std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, int device) {
    return candidates(problem, epilogue, cuda::device(device));
}

} // namespace tconv3d::cuda
