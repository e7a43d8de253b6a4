#include <gtest/gtest.h>

#include "cuda/runtime/cache.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/driver.hpp"
#include "cuda/runtime/jit.hpp"
#include "cuda/runtime/kernel_sources.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "cuda/runtime/nvrtc_library.hpp"
#include "cuda/runtime/sha256.hpp"
#include "runtime_test.hpp"
#include "scratch_folder.hpp"
#include "tconv3d/error.hpp"
#include <algorithm>

namespace tconv3d::cuda {
namespace {

using testing::contains;
using testing::Environment;
using testing::message_of;
using testing::read_file;
using testing::ScratchFolder;
using testing::write_file;

TEST(Sha256, MatchesTheStandardsVectors) {
    const auto digest = [](const std::string& text) { return hexadecimal(sha256(text)); };
    EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(digest(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
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
    EXPECT_GT(sources.size(), 50U);
    for (const SourceFile& source : sources)
        EXPECT_TRUE(source.text == read_file(TCONV3D_KERNELS "/" + std::string(source.name))) << source.name;
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

/// A kernel whose threads have 128 registers and one instruction that takes 128 for its sums alone.
std::string kernel_of_a_large_instruction() {
    std::string sums, operands;
    for (int i = 0; i < 128; ++i) {
        const std::string number = std::to_string(i);
        sums += (i > 0 ? ", %" : "%") + number;
        operands += (i > 0 ? ", \"+f\"(a[" : "\"+f\"(a[") + number + "])";
    }
    return "extern \"C\" __global__ void __launch_bounds__(512) large(float* out, uint64_t columns) {\n"
           "    float a[128] = {};\n"
           "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" +
           sums + "}, %128, %128, 1, 1, 1, 0, 0;\" : " + operands +
           " : \"l\"(columns));\n    for (int i = 0; i < 128; ++i) out[i] = a[i];\n}\n";
}

TEST_F(Compile, ShowsWhatTheAssemblerRefuses) {
    if (const std::string reason = reject_wgmma(90); !reason.empty()) GTEST_SKIP() << reason;
    const std::string message =
        message_of([] { compile_for(90, request_for(kernel_of_a_large_instruction(), "large")); });
    EXPECT_TRUE(contains(message, "Insufficient registers (128)")) << message;
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
