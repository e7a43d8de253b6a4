#include "cuda/select/layer.hpp"

#include <algorithm>
#include <cmath>

#include "tconv3d/error.hpp"

namespace tconv3d::cuda {

namespace {

bool is_valid(const Problem& problem) {
    try {
        problem.validate();
    } catch (const Error&) {
        return false; // the output would be empty
    }
    return true;
}

} // namespace

std::vector<Problem> layer_references(const Problem& problem, const std::function<bool(const Problem&)>& is_alike) {
    static const Extents kExtents[] = {{4, 4, 4},    {8, 8, 8},    {6, 12, 10},   {16, 16, 16},
                                       {12, 24, 16}, {10, 16, 96}, {24, 24, 24},  {32, 32, 32},
                                       {16, 48, 40}, {48, 40, 56}, {64, 64, 64},  {20, 96, 72},
                                       {80, 56, 88}, {96, 96, 96}, {40, 112, 60}, {128, 128, 128}};
    constexpr int64_t kFewVoxels = 32 * 32 * 32;
    std::vector<Problem> list;
    Problem at = problem;
    for (const Extents& extents : kExtents) {
        const bool odd = list.size() % 2 == 1; // rows are odd or even in turn
        for (const int64_t more : {odd ? 1 : 0, odd ? 0 : 2, odd ? 2 : 1, 3}) {
            at.src = {extents[0], extents[1], extents[2] + more};
            at.batch = extents[0] * extents[1] * extents[2] <= kFewVoxels ? 2 : 1;
            if (!is_valid(at) || !is_alike(at)) continue;
            list.push_back(at);
            break;
        }
    }
    return list;
}

std::vector<size_t> choose_few(const std::vector<std::vector<double>>& costs, size_t most) {
    std::vector<size_t> chosen;
    std::vector<double> least(costs.empty() ? 0 : costs.front().size(), kNoCost);
    const auto gain = [&](const std::vector<double>& of) {
        double sum = 0;
        for (size_t i = 0; i < least.size(); ++i) sum += std::log(least[i] / std::min(least[i], of[i]));
        return sum;
    };
    while (chosen.size() < most) {
        const auto best = std::max_element(costs.begin(), costs.end(),
                                           [&](const auto& a, const auto& b) { return gain(a) < gain(b); });
        if (best == costs.end() || gain(*best) <= 0) break;
        chosen.push_back(static_cast<size_t>(best - costs.begin()));
        for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], (*best)[i]);
    }
    return chosen;
}

std::string layer_key(Problem problem, const Device& device, const std::string& rows) {
    problem.batch = 1;
    problem.src = {1, 1, 1};
    return problem.str() + " " + rows + " " + std::to_string(device.sm) + " " + std::to_string(device.multiprocessors) +
           " " + std::to_string(device.shared_memory_per_block);
}

} // namespace tconv3d::cuda
