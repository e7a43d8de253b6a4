#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "cuda/runtime/sha256.hpp"

namespace tconv3d::cuda {

/// Where the disk cache lies; an empty path means that there is none, for the reason given.
struct CacheFolder {
    std::string path;
    std::string reason;
};

/// TCONV3D_CACHE_DIR, else $XDG_CACHE_HOME/tconv3d, else ~/.cache/tconv3d. TCONV3D_CACHE=0 turns the cache off.
CacheFolder cache_folder();

struct CacheStats {
    CacheFolder folder;
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t stores = 0;
    int64_t failures = 0; ///< files that were not usable, and stores that did not succeed
    std::string last_failure;
};

/// Files on disk, one for each key: cubins, or what tuning found. Nothing that happens to the folder is an error: a
/// file that is missing, cut short, damaged or foreign is a miss, and a store that fails leaves the folder as it was.
/// Threads and processes may share the folder: a file appears under its name complete, by rename.
class Cache {
public:
    explicit Cache(CacheFolder folder, std::string extension = ".cubin");

    std::optional<std::string> load(const Digest& key);
    void store(const Digest& key, const std::string& payload);
    CacheStats stats() const;

private:
    std::string file(const Digest& key) const;
    void count_failure(const std::string& what);

    std::string extension_;
    mutable std::mutex mutex_;
    CacheStats stats_;
};

/// The cubins in cache_folder(), which is asked once.
Cache& disk_cache();

} // namespace tconv3d::cuda
