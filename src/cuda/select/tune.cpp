#include "cuda/select/tune.hpp"

#include "cuda/runtime/cache.hpp"
#include "cuda/runtime/sha256.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

Cache tuned_cache() {
    return Cache(cache_folder(), ".tuned");
}

/// By the device's name: what is fastest on one is so on all of them.
Digest key(const Problem& problem, const Device& device) {
    return sha256("tuned\n" + device.name + "\n" + problem.str());
}

} // namespace

std::optional<Candidate> remembered(const Problem& problem, const Device& device) {
    const std::optional<std::string> found = tuned_cache().load(key(problem, device));
    if (!found) return std::nullopt;
    const size_t end = found->find('\n');
    if (end == std::string::npos) return std::nullopt;
    return Candidate{found->substr(0, end), found->substr(end + 1)};
}

void remember(const Problem& problem, const Device& device, const Candidate& fastest) {
    Cache cache = tuned_cache();
    cache.store(key(problem, device), fastest.implementation + "\n" + fastest.variant);
    const CacheStats stats = cache.stats();
    if (stats.stores == 0)
        throw Error("what was measured cannot be remembered: " +
                    (stats.folder.path.empty() ? "there is no cache, " + stats.folder.reason : stats.last_failure));
}

void remember(const Problem& problem, int device, const Candidate& fastest) {
    remember(problem, cuda::device(device), fastest);
}

} // namespace tconv3d::cuda
