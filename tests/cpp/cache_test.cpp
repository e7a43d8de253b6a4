#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/runtime/cache.hpp"
#include "runtime_test.hpp"
#include "scratch_folder.hpp"

namespace tconv3d::cuda {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::entries;
using testing::Environment;
using testing::read_file;
using testing::ScratchFolder;
using testing::write_file;

const Digest kKey = sha256("key");
const std::string kPayload(5000, 'p');

std::string file_in(const std::string& folder) {
    return folder + "/" + hexadecimal(kKey) + ".cubin";
}

TEST(Cache, ReturnsWhatWasStored) {
    const ScratchFolder scratch;
    const std::string folder = scratch / "made/on/demand";
    Cache cache({folder, ""});
    EXPECT_EQ(cache.load(kKey), std::nullopt);
    cache.store(kKey, kPayload);
    EXPECT_EQ(cache.load(kKey), kPayload);
    EXPECT_EQ(cache.load(sha256("another")), std::nullopt);
    EXPECT_EQ(Cache({folder, ""}).load(kKey), kPayload);

    const CacheStats stats = cache.stats();
    EXPECT_EQ(stats.hits, 1);
    EXPECT_EQ(stats.misses, 2);
    EXPECT_EQ(stats.stores, 1);
    EXPECT_EQ(stats.failures, 0) << stats.last_failure;
    EXPECT_EQ(entries(folder), 1);
    struct stat status{};
    ASSERT_EQ(stat(folder.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST(Cache, TakesDamagedAndForeignFilesForMissesAndReplacesThem) {
    const ScratchFolder scratch;
    Cache cache({scratch / "cache", ""});
    cache.store(kKey, kPayload);
    const std::string file = file_in(scratch / "cache");
    const std::string whole = read_file(file);

    std::vector<std::string> damaged = {"", "foreign", std::string(5080, 'x'), whole + "x"};
    for (const size_t bytes : {size_t{79}, size_t{80}, whole.size() - 1}) damaged.push_back(whole.substr(0, bytes));
    for (const size_t byte : {size_t{0}, size_t{8}, size_t{40}, size_t{47}, size_t{48}, size_t{80}, whole.size() - 1}) {
        damaged.push_back(whole);
        damaged.back()[byte] ^= 0x40;
    }
    int64_t failures = 0;
    for (const std::string& content : damaged) {
        write_file(file, content);
        EXPECT_EQ(cache.load(kKey), std::nullopt) << content.size();
        EXPECT_EQ(cache.stats().failures, ++failures);
        EXPECT_TRUE(contains(cache.stats().last_failure, file));
        cache.store(kKey, kPayload);
        EXPECT_EQ(cache.load(kKey), kPayload);
    }
}

TEST(Cache, RefusesAFileThatBelongsToAnotherKey) {
    const ScratchFolder scratch;
    Cache cache({scratch / "cache", ""});
    const Digest other = sha256("other");
    cache.store(other, kPayload);
    fs::copy(scratch / "cache/" + hexadecimal(other) + ".cubin", file_in(scratch / "cache"));
    EXPECT_EQ(cache.load(kKey), std::nullopt);
}

TEST(Cache, PassesOverAFolderAndAPipeOfTheFilesName) {
    const ScratchFolder scratch;
    fs::create_directories(file_in(scratch / "folder"));
    fs::create_directories(scratch / "pipe");
    ASSERT_EQ(mkfifo(file_in(scratch / "pipe").c_str(), 0600), 0);

    Cache beside_folder({scratch / "folder", ""});
    EXPECT_EQ(beside_folder.load(kKey), std::nullopt);
    beside_folder.store(kKey, kPayload);
    EXPECT_EQ(beside_folder.stats().failures, 2);
    EXPECT_EQ(entries(scratch / "folder"), 1) << "the temporary file must not stay";

    Cache beside_pipe({scratch / "pipe", ""});
    EXPECT_EQ(beside_pipe.load(kKey), std::nullopt);
    beside_pipe.store(kKey, kPayload);
    EXPECT_EQ(beside_pipe.load(kKey), kPayload);
}

TEST(Cache, LivesWithAFolderThatCannotBeWritten) {
    const ScratchFolder scratch;
    write_file(scratch / "file", "in the way");
    // /proc refuses new files even to root, as a read-only file system does.
    for (const std::string& folder : {scratch / "file", scratch / "file/cache", std::string("/proc/tconv3d")}) {
        Cache cache({folder, ""});
        cache.store(kKey, kPayload);
        EXPECT_EQ(cache.load(kKey), std::nullopt);
        EXPECT_EQ(cache.stats().stores, 0);
        EXPECT_GE(cache.stats().failures, 1);
        EXPECT_TRUE(contains(cache.stats().last_failure, folder));
    }
}

TEST(Cache, LeavesNothingBehindWhenTheDiskIsFull) {
    const ScratchFolder scratch;
    Cache cache({scratch / "cache", ""});
    rlimit unlimited{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    // A file ends after 1000 bytes, as on a full disk. The signal that says so would end the process.
    const rlimit limited = {1000, unlimited.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
    cache.store(kKey, kPayload);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);

    EXPECT_EQ(cache.stats().stores, 0);
    EXPECT_EQ(cache.stats().failures, 1);
    EXPECT_EQ(entries(scratch / "cache"), 0);
    sigset_t waiting, blocked;
    sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&waiting, SIGXFSZ), 0);
    EXPECT_EQ(sigismember(&blocked, SIGXFSZ), 0);
}

TEST(Cache, ShowsReadersWholeFilesWhileOthersWrite) {
    const ScratchFolder scratch;
    const std::string folder = scratch / "cache";
    const std::string payloads[] = {std::string(100000, 'a'), std::string(70000, 'b')};
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int worker = 0; worker < 4; ++worker) {
        threads.emplace_back([&, worker] {
            Cache cache({folder, ""});
            for (int round = 0; round < 20; ++round) {
                cache.store(kKey, payloads[worker % 2]);
                const std::optional<std::string> read = cache.load(kKey);
                if (read != payloads[0] && read != payloads[1]) ++wrong;
            }
            wrong += static_cast<int>(cache.stats().failures);
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(entries(folder), 1);
}

TEST(Cache, LiesWhereTheEnvironmentSays) {
    const Environment home("HOME", "/home/someone");
    const Environment xdg("XDG_CACHE_HOME", nullptr);
    const Environment chosen("TCONV3D_CACHE_DIR", nullptr);
    const Environment enabled("TCONV3D_CACHE", nullptr);
    EXPECT_EQ(cache_folder().path, "/home/someone/.cache/tconv3d");
    const Environment relative("XDG_CACHE_HOME", "somewhere");
    EXPECT_EQ(cache_folder().path, "/home/someone/.cache/tconv3d");
    const Environment absolute("XDG_CACHE_HOME", "/xdg");
    EXPECT_EQ(cache_folder().path, "/xdg/tconv3d");
    const Environment given("TCONV3D_CACHE_DIR", "/given");
    EXPECT_EQ(cache_folder().path, "/given");
    const Environment off("TCONV3D_CACHE", "0");
    EXPECT_EQ(cache_folder().path, "");
    EXPECT_TRUE(contains(cache_folder().reason, "TCONV3D_CACHE=0"));
}

TEST(Cache, IsAbsentWithoutAHome) {
    const Environment home("HOME", nullptr);
    const Environment xdg("XDG_CACHE_HOME", nullptr);
    const Environment chosen("TCONV3D_CACHE_DIR", nullptr);
    const Environment enabled("TCONV3D_CACHE", nullptr);
    EXPECT_TRUE(contains(cache_folder().reason, "HOME"));
    Cache cache(cache_folder());
    cache.store(kKey, kPayload);
    EXPECT_EQ(cache.load(kKey), std::nullopt);
    EXPECT_EQ(cache.stats().failures, 0);
}

TEST(Cache, MakesAFolderOfItsOwnersAloneHoweverItIsWritten) {
    const ScratchFolder scratch;
    const mode_t before = umask(0);
    for (const char* path : {"plain", "slash/", "slashes//", "below/it/", "dot/."}) {
        Cache cache({scratch / path, ""});
        cache.store(kKey, kPayload);
        EXPECT_EQ(cache.load(kKey), kPayload) << path << ": " << cache.stats().last_failure;
        struct stat status{};
        ASSERT_EQ(stat((scratch / path).c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777, 0700U) << path;
    }
    umask(before);
}

/// The failure of a load from a folder that holds the payload, after `spoil(folder, file)`.
template <typename Spoil>
std::string failure_after(Spoil spoil) {
    const ScratchFolder scratch;
    const std::string folder = scratch / "cache";
    Cache cache({folder, ""});
    cache.store(kKey, kPayload);
    spoil(folder, file_in(folder));
    EXPECT_EQ(cache.load(kKey), std::nullopt);
    return cache.stats().last_failure;
}

TEST(Cache, TakesNothingThatOthersCanWrite) {
    using Text = const std::string&;
    EXPECT_TRUE(contains(failure_after([](Text folder, Text) { chmod(folder.c_str(), 0777); }), "(mode 0777"));
    EXPECT_TRUE(contains(failure_after([](Text folder, Text) { chmod(folder.c_str(), 0720); }), "writable by others"));
    EXPECT_TRUE(contains(failure_after([](Text, Text file) { chmod(file.c_str(), 0602); }), "(mode 0602"));
    EXPECT_TRUE(contains(failure_after([](Text folder, Text file) {
                             fs::rename(file, folder + "/elsewhere");
                             fs::create_symlink(folder + "/elsewhere", file);
                         }),
                         "cannot be read"));
    EXPECT_TRUE(contains(failure_after([](Text folder, Text) {
                             fs::rename(folder, folder + ".open");
                             chmod((folder + ".open").c_str(), 0777);
                             fs::create_directory_symlink(folder + ".open", folder);
                         }),
                         "writable by others"));
}

TEST(Cache, TakesNothingOfAnotherUser) {
    if (geteuid() != 0) GTEST_SKIP() << "only the administrator can give files away";
    constexpr uid_t kOther = 12345;
    using Text = const std::string&;
    const auto give_away = [](Text file) { ASSERT_EQ(lchown(file.c_str(), kOther, static_cast<gid_t>(-1)), 0); };
    EXPECT_TRUE(
        contains(failure_after([&](Text folder, Text) { give_away(folder); }), "belongs to another user (12345"));
    EXPECT_TRUE(contains(failure_after([&](Text, Text file) { give_away(file); }), "belongs to another user (12345"));
}

TEST(Cache, FollowsALinkToAFolderOfTheUsers) {
    const ScratchFolder scratch;
    fs::create_directory(scratch / "folder");
    chmod((scratch / "folder").c_str(), 0700);
    fs::create_directory_symlink(scratch / "folder", scratch / "link");
    Cache cache({scratch / "link", ""});
    cache.store(kKey, kPayload);
    EXPECT_EQ(cache.load(kKey), kPayload) << cache.stats().last_failure;
}

TEST(Cache, ReadsNoFileThatIsLargerThanAnyCubin) {
    const std::string failure = failure_after([](const std::string&, const std::string& file) {
        EXPECT_EQ(truncate(file.c_str(), off_t{1} << 40), 0); // sparse
    });
    EXPECT_TRUE(contains(failure, "has 1099511627776 bytes, more than any file of tconv3d"));
}

TEST(Cache, WorksUnderANameThatIsNotUtf8) {
    const ScratchFolder scratch;
    Cache cache({scratch / "caf\xe9", ""});
    cache.store(kKey, kPayload);
    EXPECT_EQ(cache.load(kKey), kPayload) << cache.stats().last_failure;
}

void set_age(const std::string& file, time_t seconds) {
    const timespec at = {std::time(nullptr) - seconds, 0};
    const timespec times[2] = {at, at};
    ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0) << file;
}

TEST(Cache, RemovesWhatNobodyFinishedWriting) {
    const ScratchFolder scratch;
    const std::string folder = scratch / "cache", other = hexadecimal(sha256("other")) + ".cubin";
    Cache cache({folder, ""});
    cache.store(kKey, kPayload);
    for (const std::string& name : {other + ".0a1b2c", other + ".3d4e5f", std::string("notes.txt.0a1b2c")})
        write_file(folder + "/" + name, "part");
    for (const std::string& name : {other + ".0a1b2c", std::string("notes.txt.0a1b2c")})
        set_age(folder + "/" + name, 7200);
    cache.store(kKey, kPayload);
    EXPECT_FALSE(fs::exists(folder + "/" + other + ".0a1b2c"));
    EXPECT_TRUE(fs::exists(folder + "/" + other + ".3d4e5f")) << "someone may still write it";
    EXPECT_TRUE(fs::exists(folder + "/notes.txt.0a1b2c")) << "the cache never wrote it";
}

TEST(Cache, KeepsWhatWasUsedLastWithinItsBound) {
    const ScratchFolder scratch;
    const std::string folder = scratch / "cache";
    CacheFolder small{folder, ""};
    small.most_bytes = 4 * 5080;
    Cache cache(small), tuned(small, ".tuned");
    const auto key = [](int i) { return sha256(std::to_string(i)); };
    tuned.store(key(0), "stream");
    for (int i = 0; i < 3; ++i) cache.store(key(i), kPayload);
    for (int i = 0; i < 3; ++i) set_age(folder + "/" + hexadecimal(key(i)) + ".cubin", 100 - i);
    set_age(folder + "/" + hexadecimal(key(0)) + ".tuned", 1000);
    EXPECT_EQ(cache.load(key(0)), kPayload) << "and it is the last that was used";
    cache.store(key(3), kPayload);
    EXPECT_EQ(cache.usage().files, 4);
    EXPECT_LE(cache.usage().bytes, small.most_bytes);
    EXPECT_EQ(cache.load(key(1)), std::nullopt);
    for (const int i : {0, 2, 3}) EXPECT_EQ(cache.load(key(i)), kPayload) << i;
    EXPECT_EQ(tuned.load(key(0)), "stream") << "cubins go first, which can be compiled again";

    small.most_bytes = 0;
    Cache none(small);
    none.store(key(0), kPayload);
    EXPECT_EQ(none.usage().files, 0);
}

TEST(Cache, TakesItsBoundFromTheEnvironment) {
    const auto folder = [](const char* value) {
        const Environment bound("TCONV3D_CACHE_MIB", value);
        return cache_folder();
    };
    EXPECT_EQ(folder(nullptr).most_bytes, int64_t{512} << 20);
    EXPECT_EQ(folder("3").most_bytes, int64_t{3} << 20);
    EXPECT_EQ(folder("0").most_bytes, 0);
    EXPECT_EQ(folder("3").warning, "");
    for (const char* bad : {"much", "-1", "1.5", "99999999999999999999", "3 "}) {
        EXPECT_EQ(folder(bad).most_bytes, int64_t{512} << 20) << bad;
        EXPECT_TRUE(contains(folder(bad).warning, std::string("TCONV3D_CACHE_MIB=") + bad));
    }
}

TEST(Cache, SaysWhyItCannotBeUsed) {
    const ScratchFolder scratch;
    const auto failure = [](const std::string& path) { return Cache({path, ""}).usage().failure; };
    EXPECT_EQ(failure(scratch / "to/be/made"), "");
    EXPECT_FALSE(fs::exists(scratch / "to")) << "to ask makes nothing";
    write_file(scratch / "file", "in the way");
    EXPECT_TRUE(contains(failure(scratch / "file"), "cannot be opened: Not a directory"));
    EXPECT_TRUE(contains(failure(scratch / "file/below"), "cannot be opened: Not a directory"));
    fs::create_directory(scratch / "closed");
    chmod((scratch / "closed").c_str(), 0500);
    if (geteuid() != 0) { // the administrator may write anywhere
        EXPECT_TRUE(contains(failure(scratch / "closed/to/be/made"), "it cannot be made in " + scratch / "closed"));
    }
    fs::create_directory(scratch / "open");
    chmod((scratch / "open").c_str(), 0777);
    EXPECT_TRUE(contains(failure(scratch / "open"), "is writable by others (mode 0777"));
    EXPECT_EQ(Cache({"", "turned off"}).usage().failure, "turned off");
}

} // namespace
} // namespace tconv3d::cuda
