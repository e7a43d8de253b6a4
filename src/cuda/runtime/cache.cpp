#include "cuda/runtime/cache.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include "core/lasting.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

/// What stands before the payload. Files stay on the machine that wrote them, so its byte order will do.
struct Header {
    char magic[8];
    Digest key;
    uint64_t payload_bytes;
    Digest checksum;
};
static_assert(sizeof(Header) == 80, "the header is written as it lies in memory");

constexpr char kMagic[8] = {'T', 'C', 'O', 'N', 'V', '3', 'D', '\n'};
constexpr const char* kTuned = ".tuned";

Header header_for(const Digest& key, const std::string& payload) {
    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.key = key;
    header.payload_bytes = payload.size();
    header.checksum = sha256(payload);
    return header;
}

/// The payload, if the content is whole and belongs to the key.
std::optional<std::string> payload_of(const std::string& content, const Digest& key) {
    if (content.size() < sizeof(Header)) return std::nullopt;
    std::string payload = content.substr(sizeof(Header));
    const Header expected = header_for(key, payload);
    if (std::memcmp(content.data(), &expected, sizeof expected) != 0) return std::nullopt;
    return payload;
}

/// `<key>.cubin` of a file, or of one that was being written; empty for what is not the cache's.
std::string stored_name(const std::string& file) {
    constexpr size_t kDigits = 2 * sizeof(Digest);
    for (const std::string extension : {".cubin", kTuned})
        if (file.find_first_not_of("0123456789abcdef") == kDigits &&
            file.compare(kDigits, extension.size(), extension) == 0)
            return file.substr(0, kDigits + extension.size());
    return "";
}

bool is_tuned(const PrivateFolder::Entry& entry) {
    return stored_name(entry.name).rfind(kTuned) != std::string::npos;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

CacheFolder folder_of_environment() {
    if (variable("TCONV3D_CACHE") == "0") return {"", "turned off by TCONV3D_CACHE=0"};
    if (const std::string path = variable("TCONV3D_CACHE_DIR"); !path.empty()) return {path, ""};
    // The XDG specification has relative paths ignored.
    if (const std::string path = variable("XDG_CACHE_HOME"); path[0] == '/') return {path + "/tconv3d", ""};
    if (const std::string home = variable("HOME"); !home.empty()) return {home + "/.cache/tconv3d", ""};
    return {"", "none of TCONV3D_CACHE_DIR, XDG_CACHE_HOME and HOME is set"};
}

/// Why a folder that is not there could not be made; empty when it could.
std::string reject_parent(std::string path) {
    while (path.size() > 1 && access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
        const size_t end = path.find_last_not_of('/');
        const size_t slash = path.rfind('/', end);
        path = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
    }
    if (access(path.c_str(), W_OK | X_OK) == 0) return "";
    return "it cannot be made in " + path + ": " + std::strerror(errno);
}

} // namespace

CacheFolder cache_folder() {
    CacheFolder folder = folder_of_environment();
    const std::string text = variable("TCONV3D_CACHE_MIB");
    if (text.empty()) return folder;
    constexpr int64_t kMostMib = int64_t{1} << 40;
    int64_t mib = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
    if (error == std::errc() && end == text.data() + text.size() && mib >= 0 && mib <= kMostMib)
        folder.most_bytes = mib << 20;
    else
        folder.warning = "TCONV3D_CACHE_MIB=" + text + " is not a number of MiB from 0 on; " +
                         std::to_string(CacheFolder::kMostBytes >> 20) + " is taken";
    return folder;
}

Cache::Cache(CacheFolder folder, std::string extension) : extension_(std::move(extension)) {
    stats_.folder = std::move(folder);
}

std::string Cache::file(const Digest& key) const {
    return hexadecimal(key) + extension_;
}

void Cache::count_failure(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.failures;
    stats_.last_failure = what;
}

std::optional<std::string> Cache::load(const Digest& key) {
    std::optional<std::string> payload;
    const std::string& path = stats_.folder.path;
    try {
        const std::optional<std::string> content =
            path.empty() ? std::nullopt : PrivateFolder(path, false).read(file(key));
        if (content) payload = payload_of(*content, key);
        if (content && !payload) count_failure(path + "/" + file(key) + " is damaged or not a file of tconv3d");
    } catch (const Error& error) {
        count_failure(error.what());
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++(payload ? stats_.hits : stats_.misses);
    return payload;
}

void Cache::store(const Digest& key, const std::string& payload) {
    if (stats_.folder.path.empty()) return;
    const Header header = header_for(key, payload);
    std::string content(reinterpret_cast<const char*>(&header), sizeof header);
    content += payload;
    try {
        const PrivateFolder folder(stats_.folder.path, true);
        folder.write(file(key), content);
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ++stats_.stores;
        }
        remove_least_recent(folder);
    } catch (const Error& error) {
        count_failure(error.what());
    }
}

/// Cubins first: what tuning measured cannot be compiled again. Files that nobody finished writing go too.
void Cache::remove_least_recent(const PrivateFolder& folder) const {
    constexpr time_t kLongestWrite = 3600;
    const time_t now = std::time(nullptr);
    std::vector<PrivateFolder::Entry> kept;
    int64_t bytes = 0;
    for (PrivateFolder::Entry& entry : folder.entries()) {
        const std::string name = stored_name(entry.name);
        if (name.empty()) continue;
        if (entry.name == name) {
            bytes += entry.bytes;
            kept.push_back(std::move(entry));
        } else if (is_temporary(entry.name, name) && now - entry.used.tv_sec > kLongestWrite) {
            folder.remove(entry.name);
        }
    }
    const auto place = [](const PrivateFolder::Entry& entry) {
        return std::make_tuple(is_tuned(entry), entry.used.tv_sec, entry.used.tv_nsec);
    };
    std::sort(kept.begin(), kept.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
    for (size_t i = 0; i < kept.size() && bytes > stats_.folder.most_bytes; ++i)
        if (folder.remove(kept[i].name)) bytes -= kept[i].bytes;
}

CacheStats Cache::stats() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
}

CacheUsage Cache::usage() const {
    const std::string& path = stats_.folder.path;
    CacheUsage usage;
    if (path.empty()) return {0, 0, stats_.folder.reason};
    try {
        const PrivateFolder folder(path, false);
        if (folder.exists()) {
            for (const PrivateFolder::Entry& entry : folder.entries()) {
                if (entry.name != stored_name(entry.name)) continue;
                ++usage.files;
                usage.bytes += entry.bytes;
            }
            folder.require_writable();
        } else {
            usage.failure = reject_parent(path);
        }
    } catch (const Error& error) {
        usage.failure = error.what();
    }
    return usage;
}

Cache& disk_cache() {
    static Lasting<Cache> cache(cache_folder());
    return *cache;
}

} // namespace tconv3d::cuda
