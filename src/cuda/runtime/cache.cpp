#include "cuda/runtime/cache.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tconv3d::cuda {
namespace {

namespace fs = std::filesystem;

/// What stands before the payload. Files stay on the machine that wrote them, so its byte order will do.
struct Header {
    char magic[8];
    Digest key;
    uint64_t payload_bytes;
    Digest checksum;
};
static_assert(sizeof(Header) == 80, "the header is written as it lies in memory");

constexpr char kMagic[8] = {'T', 'C', 'O', 'N', 'V', '3', 'D', '\n'};

Header header_for(const Digest& key, const std::string& payload) {
    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.key = key;
    header.payload_bytes = payload.size();
    header.checksum = sha256(payload);
    return header;
}

class File {
public:
    explicit File(int descriptor) : descriptor_(descriptor) {}
    ~File() { close(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    bool is_open() const { return descriptor_ >= 0; }

    /// -1 unless it is a regular file.
    int64_t bytes() const {
        struct stat status{};
        return fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) ? int64_t{status.st_size} : -1;
    }

    bool read(void* data, size_t bytes) {
        return transfer(static_cast<char*>(data), bytes,
                        [this](char* p, size_t n) { return ::read(descriptor_, p, n); });
    }

    bool write(const void* data, size_t bytes) {
        return transfer(static_cast<const char*>(data), bytes,
                        [this](const char* p, size_t n) { return ::write(descriptor_, p, n); });
    }

    bool close() {
        const int descriptor = std::exchange(descriptor_, -1);
        return descriptor < 0 || ::close(descriptor) == 0;
    }

private:
    template <typename Byte, typename Move>
    static bool transfer(Byte* data, size_t bytes, Move move) {
        while (bytes > 0) {
            const ssize_t moved = move(data, bytes);
            if (moved < 0 && errno == EINTR) continue;
            if (moved <= 0) return false;
            data += moved;
            bytes -= static_cast<size_t>(moved);
        }
        return true;
    }

    int descriptor_;
};

/// The payload, if the file is whole and belongs to the key.
std::optional<std::string> read_payload(File& file, const Digest& key) {
    const int64_t bytes = file.bytes();
    Header header{};
    if (bytes < int64_t{sizeof header} || !file.read(&header, sizeof header)) return std::nullopt;
    // The file's own size comes first: a damaged length must not decide how much memory is asked for.
    if (header.payload_bytes != static_cast<uint64_t>(bytes) - sizeof header) return std::nullopt;
    std::string payload(header.payload_bytes, '\0');
    if (!file.read(payload.data(), payload.size())) return std::nullopt;
    const Header expected = header_for(key, payload);
    if (std::memcmp(&header, &expected, sizeof header) != 0) return std::nullopt;
    return payload;
}

/// Writes a file under a name of its own in the folder, then renames it. False, and errno, when that fails.
bool write_atomically(const std::string& file, const Digest& key, const std::string& payload) {
    std::string temporary = file + ".XXXXXX";
    File stream(mkstemp(temporary.data())); // readable by its owner alone
    if (!stream.is_open()) return false;
    const Header header = header_for(key, payload);
    const bool written = stream.write(&header, sizeof header) && stream.write(payload.data(), payload.size()) &&
                         stream.close() && std::rename(temporary.c_str(), file.c_str()) == 0;
    if (!written) {
        const int reason = errno;
        unlink(temporary.c_str());
        errno = reason;
    }
    return written;
}

/// Code that this process will run comes from here, so the folder is its owner's alone.
void make_private_folder(const std::string& path) {
    std::error_code ignored; // a folder that could not be made shows when the file is written
    fs::create_directories(fs::path(path).parent_path(), ignored);
    mkdir(path.c_str(), 0700);
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

} // namespace

CacheFolder cache_folder() {
    if (variable("TCONV3D_CACHE") == "0") return {"", "turned off by TCONV3D_CACHE=0"};
    if (const std::string path = variable("TCONV3D_CACHE_DIR"); !path.empty()) return {path, ""};
    // The XDG specification has relative paths ignored.
    if (const std::string path = variable("XDG_CACHE_HOME"); path[0] == '/') return {path + "/tconv3d", ""};
    if (const std::string home = variable("HOME"); !home.empty()) return {home + "/.cache/tconv3d", ""};
    return {"", "none of TCONV3D_CACHE_DIR, XDG_CACHE_HOME and HOME is set"};
}

Cache::Cache(CacheFolder folder, std::string extension) : extension_(std::move(extension)) {
    stats_.folder = std::move(folder);
}

std::string Cache::file(const Digest& key) const {
    return stats_.folder.path + "/" + hexadecimal(key) + extension_;
}

void Cache::count_failure(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.failures;
    stats_.last_failure = what;
}

std::optional<std::string> Cache::load(const Digest& key) {
    std::optional<std::string> payload;
    if (!stats_.folder.path.empty()) {
        const std::string name = file(key);
        File stream(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe of that name must not hang
        if (stream.is_open()) {
            payload = read_payload(stream, key);
            if (!payload) count_failure(name + " is damaged or not a file of tconv3d");
        } else if (errno != ENOENT) {
            count_failure(name + " cannot be read: " + std::strerror(errno));
        }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++(payload ? stats_.hits : stats_.misses);
    return payload;
}

void Cache::store(const Digest& key, const std::string& payload) {
    if (stats_.folder.path.empty()) return;
    make_private_folder(stats_.folder.path);
    const std::string name = file(key);
    if (!write_atomically(name, key, payload)) {
        count_failure(name + " cannot be written: " + std::strerror(errno));
        return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.stores;
}

CacheStats Cache::stats() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
}

Cache& disk_cache() {
    static Cache cache(cache_folder());
    return cache;
}

} // namespace tconv3d::cuda
