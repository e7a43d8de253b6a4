#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/runtime/driver.hpp"
#include "tconv3d/problem.hpp"

/// A layer is a problem without its batch and extents. Here is how a family finds few kernels that serve all of a
/// layer's sizes (docs/design.md, "Any size").
namespace tconv3d::cuda {

/// The layer at extents that stand for all others: cubes, and what networks have beside. Of rows of several lengths,
/// the first that is like the problem's.
std::vector<Problem> layer_references(const Problem& problem, const std::function<bool(const Problem&)>& is_alike);

/// The cost of a candidate where it cannot be taken.
constexpr double kNoCost = 1e12;

/// Which of the candidates are enough, at most so many: one after another is the best beside those before, such that
/// all references take the least, in the geometric mean. costs[candidate][reference] is more than 0.
std::vector<size_t> choose_few(const std::vector<std::vector<double>>& costs, size_t most);

/// All that the choice depends on, but for what `rows` says of the problem's.
std::string layer_key(Problem problem, const Device& device, const std::string& rows);

/// What was found for layers. That takes some milliseconds, so it is kept.
template <typename Kernels>
class FoundLayers {
public:
    template <typename Find>
    Kernels get(const std::string& key, Find find) {
        constexpr size_t kMost = 1024;
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto known = found_.find(key);
        if (known != found_.end()) return known->second;
        if (found_.size() >= kMost) found_.clear();
        return found_[key] = find();
    }

private:
    std::mutex mutex_;
    std::map<std::string, Kernels> found_;
};

} // namespace tconv3d::cuda
