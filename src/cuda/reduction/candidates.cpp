#include "cuda/reduction/candidates.hpp"

#include <algorithm>

#include "core/cuts.hpp"
#include "cuda/reduction/tile.hpp"

namespace tconv3d::cuda {

std::vector<int64_t> equal_parts(int64_t whole, std::initializer_list<int64_t> sizes, int64_t multiple) {
    std::vector<int64_t> list;
    for (const int64_t size : sizes) {
        const int64_t part = round_up(cuts(whole, cuts(whole, size)), multiple);
        if (list.empty() || list.back() != part) list.push_back(part);
    }
    return list;
}

double SplitModel::transfer(const Device& device, double bytes) const {
    return bytes / bytes_per_microsecond * (132.0 / device.multiprocessors);
}

double SplitModel::products(const Problem& problem, const Device& device, double clocks) const {
    return launch + std::max(transfer(device, problem.bytes()), clocks / clocks_per_microsecond);
}

double SplitModel::second_pass(const Problem& problem, const Device& device, int64_t splits) const {
    const int64_t sums = splits > 1 ? split_sums(problem) * (splits + 1) : 0;
    return next_launch + transfer(device, static_cast<double>(sums) * sizeof(float));
}

std::vector<int64_t> split_counts(const Problem& problem, const Device& device, const SplitWork& work) {
    // Of the sums of all splits; one weight may be more, but then there is one split, which has no sums.
    constexpr int64_t kMostWorkspace = int64_t{64} << 20;
    // Tensor cores cut off what a sum has no room for: 2^-24 of it, on average, in each k step. After this many it is
    // what rounding to tf32 costs.
    constexpr int64_t kMostSteps = 4096;
    constexpr int64_t kMostTimes = 6;
    const int64_t fit = kMostWorkspace / static_cast<int64_t>(sizeof(float)) / split_sums(problem);
    const int64_t most = std::max<int64_t>(std::min(work.parts, fit), 1);
    const int64_t fewest = std::clamp<int64_t>(cuts(work.steps, kMostSteps), 1, most);
    std::vector<int64_t> list;
    for (int64_t times = 0; times <= kMostTimes; ++times)
        list.push_back(std::clamp<int64_t>(times * device.multiprocessors / work.items, fewest, most));
    return list;
}

} // namespace tconv3d::cuda
