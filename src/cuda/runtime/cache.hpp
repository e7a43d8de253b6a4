#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "cuda/runtime/private_folder.hpp"
#include "cuda/runtime/sha256.hpp"

namespace tconv3d::cuda {

/// Where the disk cache lies; an empty path means that there is none, for the reason given.
struct CacheFolder {
    static constexpr int64_t kMostBytes = int64_t{512} << 20;

    std::string path;
    std::string reason;
    int64_t most_bytes = kMostBytes; ///< of all files together
    std::string warning = {};        ///< of a setting that is not taken
};

/// TCONV3D_CACHE_DIR, else $XDG_CACHE_HOME/tconv3d, else ~/.cache/tconv3d. TCONV3D_CACHE=0 turns the cache off, and
/// TCONV3D_CACHE_MIB says how large it may get.
CacheFolder cache_folder();

struct CacheStats {
    CacheFolder folder;
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t stores = 0;
    int64_t failures = 0; ///< files that were not usable, and stores that did not succeed
    std::string last_failure;
};

/// What lies in the folder now.
struct CacheUsage {
    int64_t files = 0;
    int64_t bytes = 0;
    std::string failure; ///< why files are not found or not kept; empty when all is well
};

/// Files on disk, one for each key: cubins, or what tuning found. Nothing that happens to the folder is an error: a
/// file that is missing, cut short, damaged, foreign or another user's is a miss, and a store that fails leaves the
/// folder as it was. Threads and processes may share the folder: a file appears under its name complete, by rename.
/// A store that makes all files larger than the folder may get removes those that were used least recently.
class Cache {
public:
    explicit Cache(CacheFolder folder, std::string extension = ".cubin");

    std::optional<std::string> load(const Digest& key);
    void store(const Digest& key, const std::string& payload);
    CacheStats stats() const;
    CacheUsage usage() const;

private:
    std::string file(const Digest& key) const;
    void count_failure(const std::string& what);
    void remove_least_recent(const PrivateFolder& folder) const;

    std::string extension_;
    mutable std::mutex mutex_;
    CacheStats stats_;
};

/// The cubins in cache_folder(), which is asked once.
Cache& disk_cache();

} // namespace tconv3d::cuda
