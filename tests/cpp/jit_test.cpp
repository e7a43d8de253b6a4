#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/runtime/cache.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/driver.hpp"
#include "cuda/runtime/jit.hpp"
#include "cuda/runtime/kernel_sources.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "cuda/runtime/nvrtc_library.hpp"
#include "cuda/runtime/sha256.hpp"
#include "scratch_folder.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

namespace fs = std::filesystem;
using testing::ScratchFolder;

/// Sets an environment variable, or removes it (null), for a scope.
class Environment {
public:
    Environment(const char* name, const char* value) : name_(name) {
        const char* old = std::getenv(name);
        had_ = old != nullptr;
        if (had_) old_ = old;
        set(value);
    }
    ~Environment() { set(had_ ? old_.c_str() : nullptr); }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    void set(const char* value) {
        if (value != nullptr) {
            setenv(name_, value, 1);
        } else {
            unsetenv(name_);
        }
    }

    const char* name_;
    bool had_;
    std::string old_;
};

void write_file(const std::string& name, const std::string& text) {
    std::ofstream(name, std::ios::binary) << text;
}

std::string read_file(const std::string& name) {
    std::ifstream stream(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

int64_t entries(const std::string& folder) {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

/// The message of the Error that `body` throws; empty when it throws none.
template <typename Body>
std::string message_of(Body body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

::testing::AssertionResult contains(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "'" << part << "' is not in '" << text << "'";
}

TEST(Sha256, MatchesTheStandardsVectors) {
    const auto digest = [](const std::string& text) { return hexadecimal(sha256(text)); };
    EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(digest(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

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
    const rlimit limited = {1000, unlimited.rlim_max}; // a file ends after 1000 bytes, as on a full disk
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
    cache.store(kKey, kPayload);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    std::signal(SIGXFSZ, handler);

    EXPECT_EQ(cache.stats().stores, 0);
    EXPECT_EQ(cache.stats().failures, 1);
    EXPECT_EQ(entries(scratch / "cache"), 0);
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

TEST(Driver, SaysWhyItIsNotThere) {
    EXPECT_TRUE(contains(message_of([] { open_driver("/nowhere/libcuda.so.1"); }), "/nowhere/libcuda.so.1"));
    EXPECT_TRUE(contains(message_of([] { open_driver("libm.so.6"); }), "libm.so.6 has no function cuInit"));
    const DriverStatus status = driver_status();
    EXPECT_NE(status.available, status.version.empty());
    EXPECT_EQ(status.available, status.reason.empty()) << status.reason;
}

TEST(Launch, RefusesExtentsOutsideTheLimits) {
    Function function{};
    function.entry = "some_kernel";
    function.max_threads = 256;
    const auto message = [&](const Dim3& grid, const Dim3& block) {
        return message_of([&] { launch(function, grid, block, nullptr, nullptr); });
    };
    EXPECT_TRUE(contains(message({0, 1, 1}, {32, 1, 1}), "some_kernel: a grid of 0x1x1 blocks"));
    EXPECT_TRUE(contains(message({1, 65536, 1}, {32, 1, 1}), "1x65536x1"));
    EXPECT_TRUE(contains(message({int64_t{1} << 31, 1, 1}, {32, 1, 1}), "2147483648x1x1"));
    EXPECT_TRUE(contains(message({1, 1, 1}, {16, 17, 1}), "a block of 16x17x1 threads"));
    EXPECT_TRUE(contains(message({1, 1, 1}, {1, 1, 65}), "1x1x65"));
}

TEST(Nvrtc, IsLookedForInPyTorchsFoldersBeforeTheSystems) {
    const ScratchFolder scratch;
    for (const char* name : {"libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0",
                             "libnvrtc-672ee683.so.11.2", "libcudart.so.13"}) {
        write_file(scratch / name, "");
    }
    {
        const Environment unset("TCONV3D_NVRTC", nullptr);
        const std::vector<std::string> found = nvrtc_candidates({"/nowhere", scratch / ""});
        const auto place = [&](const std::string& name) { return std::find(found.begin(), found.end(), name); };
        ASSERT_NE(place(scratch / "libnvrtc-672ee683.so.11.2"), found.end());
        EXPECT_LT(place(scratch / "libnvrtc.so.13"), place(scratch / "libnvrtc.so.12"));
        EXPECT_LT(place(scratch / "libnvrtc.so.12"), place(scratch / "libnvrtc-672ee683.so.11.2"));
        EXPECT_EQ(place(scratch / "libnvrtc.alt.so.13"), found.end());
        EXPECT_EQ(place(scratch / "libnvrtc-builtins.so.13.0"), found.end());
        EXPECT_EQ(place(scratch / "libcudart.so.13"), found.end());
        EXPECT_LT(place(scratch / "libnvrtc-672ee683.so.11.2"), place("libnvrtc.so"));
        EXPECT_NE(place("libnvrtc.so"), found.end());
    }
    const Environment chosen("TCONV3D_NVRTC", "/only/this");
    EXPECT_EQ(nvrtc_candidates({scratch / ""}), std::vector<std::string>{"/only/this"});
}

TEST(KernelSources, AreEmbeddedWhole) {
    const std::vector<SourceFile>& sources = kernel_sources();
    const auto has_name = [](const SourceFile& source) { return source.name == "base/ptx.cuh"; };
    const auto ptx = std::find_if(sources.begin(), sources.end(), has_name);
    ASSERT_NE(ptx, sources.end());
    EXPECT_TRUE(ptx->text == read_file(TCONV3D_KERNELS "/base/ptx.cuh")) << "the embedded text differs from the file";
}

/// The tests that compile. They need NVRTC, and neither a GPU nor a driver.
class Compile : public ::testing::Test {
protected:
    void SetUp() override {
        const NvrtcStatus status = nvrtc_status();
        if (!status.available) GTEST_SKIP() << status.reason;
    }
};

/// The embedded sources hold no kernel for tests: the kernel goes into the prelude, after the header that it uses.
KernelRequest request_for(const std::string& kernels, const std::string& entry) {
    return {"base/ptx.cuh", "#include \"base/ptx.cuh\"\n" + kernels, entry, 0};
}

const std::string kKernels = R"(
constexpr int kShared = 100;
extern "C" __global__ void add(const uint16_t* a, const float* b, float* c, int64_t n) {
    __shared__ float shared[kShared];
    const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
    shared[threadIdx.x % kShared] = i < n ? ptx::bf16_to_float(a[i]) : 0;
    __syncthreads();
    if (i < n) c[i] = shared[(threadIdx.x + 1) % kShared] + b[i];
}
extern "C" __global__ void stack(const float* a, float* b, int n) {
    float values[128];
    #pragma unroll 1
    for (int i = 0; i < 128; ++i) values[i] = a[i * n];
    #pragma unroll 1
    for (int i = 0; i < 128; ++i) b[i] = values[(i * n) & 127];
}
extern "C" __global__ void __launch_bounds__(1024) spills(const float* a, float* b, int n) {
    float values[96];
    for (int i = 0; i < 96; ++i) values[i] = a[i * n];
    __syncthreads();
    for (int i = 0; i < 96; ++i) b[i * n] = values[95 - i];
}
)";

TEST_F(Compile, ReportsWhatTheKernelUses) {
    for (const int sm : {80, 90}) {
        const Compiled add = compile_for(sm, request_for(kKernels, "add"));
        EXPECT_EQ(add.cubin.substr(0, 4), "\x7f"
                                          "ELF");
        EXPECT_GE(add.registers, 8);
        EXPECT_LE(add.registers, 40);
        EXPECT_EQ(add.shared_bytes, 400);
        EXPECT_EQ(add.spill_bytes, 0);
        EXPECT_EQ(add.local_bytes, 0);
        EXPECT_GE(compile_for(sm, request_for(kKernels, "stack")).local_bytes, 512);
        EXPECT_GT(compile_for(sm, request_for(kKernels, "spills")).spill_bytes, 0);
    }
    EXPECT_TRUE(contains(message_of([] { compile_for(80, request_for(kKernels, "absent")); }), "no kernel 'absent'"));
}

TEST_F(Compile, NamesTheArchitecture) {
    EXPECT_EQ(architecture(80), "sm_80");
    EXPECT_EQ(architecture(90), nvrtc_version().major >= 12 ? "sm_90a" : "sm_90");
    EXPECT_TRUE(contains(message_of([] { architecture(33); }), "does not compile for sm_33; it knows sm_"));
}

TEST_F(Compile, ShowsTheErrorsAndWhereTheSourceLies) {
    const ScratchFolder scratch;
    const std::string folder = scratch / "debug";
    const KernelRequest request =
        request_for("extern \"C\" __global__ void broken() { int x = wrong_name; }", "broken");
    EXPECT_TRUE(contains(message_of([&] { compile_for(80, request); }), "TCONV3D_DEBUG_DIR"));
    const Environment debug("TCONV3D_DEBUG_DIR", folder.c_str());
    const std::string message = message_of([&] { compile_for(80, request); });
    EXPECT_TRUE(contains(message, "prelude(2): error: identifier \"wrong_name\" is undefined"));
    EXPECT_TRUE(contains(message, "source in " + folder + "/ptx-"));
    for (const SourceFile& file : kernel_sources()) EXPECT_EQ(read_file(folder + "/" + file.name), file.text);
    EXPECT_TRUE(contains(message_of([] { compile_for(80, {"absent.cuh", "", "k", 0}); }), "'absent.cuh'"));
}

TEST_F(Compile, TakesTheCubinFromTheCacheTheSecondTime) {
    const ScratchFolder scratch;
    Cache cache({scratch / "cache", ""});
    const KernelRequest request = request_for(kKernels, "add");
    const std::string compiled = cubin_for(80, request, cache);
    EXPECT_EQ(cubin_for(80, request, cache), compiled);
    EXPECT_EQ(cache.stats().hits, 1);
    EXPECT_EQ(cache.stats().misses, 1);

    EXPECT_NE(cubin_for(90, request, cache), compiled);
    EXPECT_NE(cubin_for(80, request_for("constexpr int kOther = 1;" + kKernels, "add"), cache), "");
    EXPECT_EQ(cache.stats().stores, 3) << "architecture and prelude belong to the key";

    Cache unwritable({"/proc/tconv3d", ""});
    EXPECT_EQ(cubin_for(80, request, unwritable), compiled);
}

} // namespace
} // namespace tconv3d::cuda
