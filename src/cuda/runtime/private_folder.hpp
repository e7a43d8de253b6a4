#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

namespace tconv3d::cuda {

/// A file descriptor that is closed with its owner.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept;
    Descriptor& operator=(Descriptor&&) = delete;

    bool is_open() const { return number_ >= 0; }
    int number() const { return number_; }
    bool read(void* data, size_t bytes) const;
    bool write(const void* data, size_t bytes) const;
    bool close();

private:
    int number_;
};

/// A folder whose files only this user, or the administrator, can have written: code that the process runs comes from
/// it. Each function throws Error, with the file and the reason, where that does not hold or the system refuses.
class PrivateFolder {
public:
    /// A file by its name in the folder.
    struct Entry {
        std::string name;
        int64_t bytes;
        timespec used; ///< the last time that it was written or read
    };

    /// No file that tconv3d writes is larger: cubins have some hundred KiB.
    static constexpr int64_t kMostBytes = 64 << 20;

    /// Opens the folder, and makes it first where `make` asks for that.
    PrivateFolder(const std::string& path, bool make);

    /// Otherwise there is no such folder, and nothing in it.
    bool exists() const { return folder_.is_open(); }
    void require_writable() const;

    /// The content, and marks the file as used; none where there is no such file.
    std::optional<std::string> read(const std::string& name) const;
    /// The file appears complete, by rename. A failure leaves the folder as it was.
    void write(const std::string& name, const std::string& content) const;
    /// Whether the file is gone after it, by whoever's hand.
    bool remove(const std::string& name) const;
    /// The regular files.
    std::vector<Entry> entries() const;

private:
    Descriptor make_temporary(std::string& name) const;
    std::string path_of(const std::string& name) const { return path_ + "/" + name; }

    std::string path_;
    Descriptor folder_;
};

/// Whether it is the name of a file that was being written under `name`, or still is.
bool is_temporary(const std::string& file, const std::string& name);

} // namespace tconv3d::cuda
