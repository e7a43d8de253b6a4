#include "cuda/runtime/private_folder.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

constexpr size_t kSuffix = 7; // a dot and six digits behind the name of a file that is being written

[[noreturn]] void fail(const std::string& file, const char* what) {
    throw Error(file + " " + what + ": " + std::strerror(errno));
}

std::string mode_text(mode_t mode) {
    char digits[8];
    std::snprintf(digits, sizeof digits, "%04o", static_cast<unsigned>(mode) & 07777U);
    return digits;
}

/// Others must not be able to put code here that this process runs.
void require_private(const std::string& file, const struct stat& status) {
    constexpr uid_t kAdministrator = 0;
    if (status.st_uid != geteuid() && status.st_uid != kAdministrator)
        throw Error(file + " belongs to another user (" + std::to_string(status.st_uid) + ", this one is " +
                    std::to_string(geteuid()) + ")");
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        throw Error(file + " is writable by others (mode " + mode_text(status.st_mode) + "; chmod go-w mends it)");
}

struct stat status_of(const Descriptor& descriptor, const std::string& file) {
    struct stat status{};
    if (fstat(descriptor.number(), &status) != 0) fail(file, "cannot be looked at");
    return status;
}

/// Each folder on the way that is not there yet. One that cannot be made shows when it is opened.
void make_folders(const std::string& path) {
    for (size_t end = 1; end <= path.size(); ++end)
        if (end == path.size() || path[end] == '/') mkdir(path.substr(0, end).c_str(), 0700);
}

/// While it lives, a file that grows over the limit of the process makes write() fail instead of ending the process.
class NoFileSizeSignal {
public:
    NoFileSizeSignal() {
        sigset_t waiting;
        sigpending(&waiting);
        was_waiting_ = sigismember(&waiting, SIGXFSZ) == 1;
        sigemptyset(&signal_);
        sigaddset(&signal_, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &signal_, &before_);
    }
    ~NoFileSizeSignal() {
        const timespec at_once{};
        const int reason = errno;
        if (!was_waiting_) sigtimedwait(&signal_, nullptr, &at_once);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        errno = reason;
    }
    NoFileSizeSignal(const NoFileSizeSignal&) = delete;
    NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

private:
    sigset_t signal_{}, before_{};
    bool was_waiting_;
};

template <typename Byte, typename Move>
bool transfer(Byte* data, size_t bytes, Move move) {
    while (bytes > 0) {
        const ssize_t moved = move(data, bytes);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return false;
        data += moved;
        bytes -= static_cast<size_t>(moved);
    }
    return true;
}

} // namespace

Descriptor::~Descriptor() {
    close();
}

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

bool Descriptor::read(void* data, size_t bytes) const {
    return transfer(static_cast<char*>(data), bytes, [this](char* p, size_t n) { return ::read(number_, p, n); });
}

bool Descriptor::write(const void* data, size_t bytes) const {
    return transfer(static_cast<const char*>(data), bytes,
                    [this](const char* p, size_t n) { return ::write(number_, p, n); });
}

bool Descriptor::close() {
    const int number = std::exchange(number_, -1);
    return number < 0 || ::close(number) == 0;
}

PrivateFolder::PrivateFolder(const std::string& path, bool make)
    : path_(path), folder_([&] {
          if (make) make_folders(path);
          return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      }()) {
    if (!exists() && (make || errno != ENOENT)) fail(path_, "cannot be opened");
    // The folder that was opened is looked at, wherever links have led: all files are then opened from it.
    if (exists()) require_private(path_, status_of(folder_, path_));
}

void PrivateFolder::require_writable() const {
    if (faccessat(folder_.number(), ".", W_OK | X_OK, AT_EACCESS) != 0) fail(path_, "cannot be written");
}

std::optional<std::string> PrivateFolder::read(const std::string& name) const {
    if (!exists()) return std::nullopt;
    const std::string path = path_of(name);
    // A pipe of that name must not hang, and a link may lead anywhere.
    const Descriptor file(openat(folder_.number(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (!file.is_open() && errno == ENOENT) return std::nullopt;
    if (!file.is_open()) fail(path, "cannot be read");
    const struct stat status = status_of(file, path);
    if (!S_ISREG(status.st_mode)) throw Error(path + " is not a file");
    require_private(path, status);
    if (status.st_size > kMostBytes)
        throw Error(path + " has " + std::to_string(status.st_size) + " bytes, more than any file of tconv3d");
    std::string content(static_cast<size_t>(status.st_size), '\0');
    if (!file.read(content.data(), content.size())) fail(path, "cannot be read");
    futimens(file.number(), nullptr); // where that is refused, the file only looks as if nobody used it
    return content;
}

Descriptor PrivateFolder::make_temporary(std::string& name) const {
    static std::atomic<unsigned> count{0};
    constexpr int kMostTries = 100;
    const std::string wanted = name;
    for (int tries = 0; tries < kMostTries; ++tries) {
        const unsigned number = static_cast<unsigned>(getpid()) * 4096U + count++;
        char suffix[kSuffix + 1];
        std::snprintf(suffix, sizeof suffix, ".%06x", number & 0xffffffU);
        name = wanted + suffix;
        Descriptor file(openat(folder_.number(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (file.is_open() || errno != EEXIST) return file;
    }
    return Descriptor();
}

void PrivateFolder::write(const std::string& name, const std::string& content) const {
    const NoFileSizeSignal guard;
    const std::string path = path_of(name);
    std::string temporary = name;
    Descriptor file = make_temporary(temporary);
    if (!file.is_open()) fail(path, "cannot be written");
    if (file.write(content.data(), content.size()) && file.close() &&
        renameat(folder_.number(), temporary.c_str(), folder_.number(), name.c_str()) == 0)
        return;
    const int reason = errno;
    remove(temporary);
    errno = reason;
    fail(path, "cannot be written");
}

bool PrivateFolder::remove(const std::string& name) const {
    return unlinkat(folder_.number(), name.c_str(), 0) == 0 || errno == ENOENT;
}

std::vector<PrivateFolder::Entry> PrivateFolder::entries() const {
    std::vector<Entry> found;
    if (!exists()) return found;
    // A descriptor of its own, which closedir() closes.
    const int own = openat(folder_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> list(own < 0 ? nullptr : fdopendir(own), closedir);
    if (!list) fail(path_, "cannot be listed");
    while (const dirent* entry = readdir(list.get())) {
        struct stat status{};
        if (fstatat(folder_.number(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
            found.push_back({entry->d_name, int64_t{status.st_size}, status.st_mtim});
    }
    return found;
}

bool is_temporary(const std::string& file, const std::string& name) {
    return file.size() == name.size() + kSuffix && file.rfind(name + ".", 0) == 0;
}

} // namespace tconv3d::cuda
