// Kernels that cannot be compiled, loaded or launched, and kernels that are too many: on a made-up GPU, each test in a
// process of its own, because a process opens one driver and one NVRTC.
#include "../made_up_gpu/gpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/epilogue_bwd/epilogue_bwd.hpp"
#include "cuda/runtime/context.hpp"
#include "cuda/runtime/loaded_kernels.hpp"
#include "cuda/runtime/shared_library.hpp"
#include "cuda/select/family.hpp"
#include "runtime_test.hpp"

namespace tconv3d::cuda {
namespace {

using testing::contains;
using testing::MadeUpGpu;
using testing::message_of;

MadeUpGpu& gpu() {
    static MadeUpGpu& state = []() -> MadeUpGpu& {
        MadeUpGpu* (*find)() = nullptr;
        SharedLibrary(TCONV3D_MADE_UP_GPU).resolve("made_up_gpu", find);
        return *find();
    }();
    return state;
}

/// The statement in a process that has this GPU and no disk cache; it fails with the expectations in it.
#define ON_A_MADE_UP_GPU(body)                                                                                         \
    ::testing::GTEST_FLAG(death_test_style) = "threadsafe";                                                            \
    EXPECT_EXIT(                                                                                                       \
        {                                                                                                              \
            setenv("TCONV3D_CUDA_DRIVER", TCONV3D_MADE_UP_GPU, 1);                                                     \
            setenv("TCONV3D_NVRTC", TCONV3D_MADE_UP_GPU, 1);                                                           \
            setenv("TCONV3D_CACHE", "0", 1);                                                                           \
            unsetenv("TCONV3D_CUDA_IMPL");                                                                             \
            body();                                                                                                    \
            std::exit(HasFailure() ? 1 : 0);                                                                           \
        },                                                                                                             \
        ::testing::ExitedWithCode(0), "")

int a_stream_of_its_own; // the default one cannot be captured
void* const kStream = &a_stream_of_its_own;

KernelRequest kernel(int number) {
    return {"direct_fwd.cuh", "// kernel " + std::to_string(number) + ".\n", "direct_fwd", 0};
}

/// How many of the sources are that kernel's.
int64_t count(const std::vector<std::string>& sources, int number) {
    const std::string text = kernel(number).prelude;
    return std::count_if(sources.begin(), sources.end(),
                         [&](const std::string& source) { return source.find(text) != std::string::npos; });
}

void start(const FunctionPtr& function) {
    launch(*function, {1}, {32}, nullptr, kStream);
}

void keep_those_used_last() {
    LoadedKernels kernels(8);
    std::vector<std::shared_ptr<KernelSlot>> slots;
    for (int i = 0; i < 8; ++i) slots.push_back(kernels.slot(device(0), kernel(i)));
    for (const auto& slot : slots) start(kernels.get(slot, kStream));
    EXPECT_EQ(kernels.slot(device(0), kernel(3)), slots[3]) << "one slot for one kernel";
    EXPECT_EQ(gpu().unloaded.size(), 0U);

    start(kernels.get(slots[0], kStream));
    const FunctionPtr held = kernels.get(slots[1], kStream);
    gpu().captures = true;
    start(kernels.get(slots[2], kStream));
    gpu().captures = false;
    for (const int i : {3, 4, 5, 6, 7, 0}) kernels.get(slots[static_cast<size_t>(i)], kStream);
    kernels.get(kernels.slot(device(0), kernel(8)), kStream);
    EXPECT_EQ(kernels.size(), 6U);
    EXPECT_EQ(gpu().unloaded.size(), 3U);
    for (const int i : {3, 4, 5}) EXPECT_EQ(count(gpu().unloaded, i), 1) << i;

    start(kernels.get(slots[4], kStream));
    EXPECT_EQ(count(gpu().loaded, 4), 2) << "it is loaded again for a plan that kept its slot";
    EXPECT_EQ(kernels.size(), 7U);
}

TEST(MadeUpGpuDeathTest, KernelsThatNobodyUsesAreUnloadedAtABound) {
    ON_A_MADE_UP_GPU(keep_those_used_last);
}

void unload_nothing_while_work_is_under_way() {
    LoadedKernels kernels(4);
    gpu().synchronize_result = 900; // as while another thread captures a graph
    for (int i = 0; i < 6; ++i) start(kernels.get(kernels.slot(device(0), kernel(i)), kStream));
    EXPECT_EQ(gpu().unloaded.size(), 0U);
    EXPECT_EQ(kernels.size(), 6U);
    gpu().synchronize_result = 0;
    kernels.get(kernels.slot(device(0), kernel(6)), kStream);
    EXPECT_EQ(kernels.size(), 3U);
    EXPECT_EQ(gpu().unloaded.size(), 4U);
}

TEST(MadeUpGpuDeathTest, NothingIsUnloadedUnlessTheDeviceIsDone) {
    ON_A_MADE_UP_GPU(unload_nothing_while_work_is_under_way);
}

void load_while_another_thread_captures() {
    LoadedKernels kernels(4);
    gpu().captures_elsewhere = true;
    start(kernels.get(kernels.slot(device(0), kernel(0)), kStream));
    EXPECT_EQ(count(gpu().launched, 0), 1);
    int mode = kCaptureModeRelaxed;
    driver().cuThreadExchangeStreamCaptureMode(&mode);
    EXPECT_EQ(mode, 0) << "the thread has its mode again";
}

TEST(MadeUpGpuDeathTest, KernelsAreLoadedWhileAnotherThreadCaptures) {
    ON_A_MADE_UP_GPU(load_while_another_thread_captures);
}

/// What get() throws: "failure" of the kernel, "error", or nothing.
std::string thrown(LoadedKernels& kernels, int number) {
    try {
        kernels.get(kernels.slot(device(0), kernel(number)), kStream);
    } catch (const KernelFailure&) {
        return "failure";
    } catch (const Error&) {
        return "error";
    }
    return "";
}

void remember_failures_of_kernels_alone() {
    LoadedKernels kernels(100);
    gpu().not_compiled = "kernel 1.";
    for (int tries = 0; tries < 3; ++tries) EXPECT_EQ(thrown(kernels, 1), "failure");
    EXPECT_EQ(gpu().compilations, 1);
    gpu().not_loaded = "kernel 2.";
    for (const int fault : {200, 209, 218, 222}) {
        gpu().load_result = fault;
        EXPECT_EQ(thrown(kernels, 2), "failure");
    }
    EXPECT_EQ(gpu().compilations, 2);

    gpu().not_loaded = "kernel 3."; // memory is short, or earlier work has failed
    for (const int fault : {2, 700, 719, 999}) {
        gpu().load_result = fault;
        EXPECT_EQ(thrown(kernels, 3), "error") << fault;
    }
    gpu().not_loaded = "";
    EXPECT_EQ(thrown(kernels, 3), "") << "it was not the kernel's fault";
    gpu().not_compiled = "kernel 4.";
    gpu().compile_result = 1; // NVRTC's out of memory
    EXPECT_EQ(thrown(kernels, 4), "error");
    gpu().not_compiled = "";
    gpu().captures = true;
    EXPECT_EQ(thrown(kernels, 4), "error");
    gpu().captures = false;
    EXPECT_EQ(thrown(kernels, 4), "");
}

TEST(MadeUpGpuDeathTest, AKernelThatFailsIsNotTriedAgain) {
    ON_A_MADE_UP_GPU(remember_failures_of_kernels_alone);
}

const char* const kProblem = "n2 ci32 co32 8x8x8 k3 s2 p1 tf32";

/// Executes plans until one succeeds; the implementations in order, the last of which is empty when none did.
std::vector<std::string> tried(const Problem& problem) {
    alignas(256) static unsigned char memory[256]; // no kernel runs
    std::vector<std::string> names;
    std::vector<Rejection> failed;
    try {
        while (true) {
            const Plan plan(problem, {}, 0, failed);
            names.push_back(plan.implementation());
            Arguments arguments;
            arguments.src = arguments.weight = arguments.grad_dst = memory;
            arguments.dst = arguments.grad_src = arguments.grad_weight = memory;
            try {
                plan.execute(arguments, kStream, memory);
                return names;
            } catch (const KernelFailure& failure) {
                failed.push_back({plan.implementation(), failure.what()});
            }
        }
    } catch (const KernelFailure& failure) {
        for (const Rejection& each : failed)
            EXPECT_TRUE(contains(failure.what(), each.implementation + ": has failed"));
        names.emplace_back();
    }
    return names;
}

/// Executes the first plan for the problem on the device; the number of kernels that were launched.
size_t launched_on(int ordinal, const Problem& problem) {
    alignas(256) static unsigned char memory[256];
    const size_t before = gpu().launched.size();
    Arguments arguments;
    arguments.src = arguments.weight = arguments.grad_dst = memory;
    arguments.dst = arguments.grad_src = arguments.grad_weight = memory;
    Plan(problem, {}, ordinal).execute(arguments, kStream, memory);
    return gpu().launched.size() - before;
}

/// As a C++ program's thread, or one that compiles a second kernel beside the first.
void need_no_context_of_the_callers() {
    gpu().devices = 2;
    for (const char* line : {"n2 ci32 co32 8x8x8 k3 s2 p1 tf32", "n2 ci32 co32 8x8x8 k3 s2 p1 tf32 bwd_data",
                             "n2 ci32 co32 8x8x8 k3 s2 p1 bf16 bwd_weight", "n2 ci3 co2 8x8x8 k3 f64"})
        for (const int ordinal : {0, 1}) EXPECT_GE(launched_on(ordinal, Problem::parse(line)), 1U) << line;
    Context current = nullptr;
    driver().cuCtxGetCurrent(&current);
    EXPECT_EQ(current, nullptr);

    driver().cuCtxPushCurrent(primary_context(device(0)));
    EXPECT_EQ(launched_on(1, Problem::parse(kProblem)), 2U) << "packed weights, and the products";
    driver().cuCtxGetCurrent(&current);
    EXPECT_EQ(current, primary_context(device(0)));
}

TEST(MadeUpGpuDeathTest, EveryThreadAndDeviceGetsTheContextThatItNeeds) {
    ON_A_MADE_UP_GPU(need_no_context_of_the_callers);
}

/// A thread that nobody joins may call while the process ends: what calls need is still there then.
void call_while_the_process_ends() {
    gpu(); // and its library's destructors come last
    std::atexit([] {
        for (const char* line : {kProblem, "n2 ci32 co32 8x8x8 k3 s2 p1 tf32 bwd_weight", "n2 ci3 co2 8x8x8 k3 f64"})
            if (launched_on(0, Problem::parse(line)) == 0) std::_Exit(1);
    });
    launched_on(0, Problem::parse(kProblem));
}

TEST(MadeUpGpuDeathTest, ThreadsMayCallWhileTheProcessEnds) {
    ON_A_MADE_UP_GPU(call_while_the_process_ends);
}

void try_the_next() {
    using Names = std::vector<std::string>;
    const Problem problem = Problem::parse(kProblem);
    const Names first = tried(problem);
    ASSERT_EQ(first.size(), 1U);
    ASSERT_TRUE(first[0] == "stream" || first[0] == "gather");
    gpu().not_launched = first[0] == "stream" ? "streamed.cuh" : "gathered.cuh";
    const Names second = tried(problem);
    ASSERT_EQ(second.size(), 2U);
    EXPECT_NE(second[1], "direct");

    gpu().not_launched = ".cuh"; // all of them
    const Names all = tried(problem);
    EXPECT_EQ(all, (Names{first[0], second[1], "direct", ""}));

    gpu().launch_result = 700; // work before it has failed
    EXPECT_TRUE(contains(message_of([&] { tried(problem); }), "MADE_UP (700)"));
    const testing::Environment forced("TCONV3D_CUDA_IMPL", "cells");
    gpu().launch_result = 701;
    EXPECT_THROW(Plan(problem, {}, 0).execute({}, kStream, nullptr), Error);
}

TEST(MadeUpGpuDeathTest, TheNextImplementationRunsThenDirectThenNone) {
    ON_A_MADE_UP_GPU(try_the_next);
}

/// The files of the kernels that cells launches for the problem, in order.
std::vector<std::string> launched_by_cells(const char* line) {
    alignas(256) static unsigned char memory[256];
    const testing::Environment forced("TCONV3D_CUDA_IMPL", "cells");
    gpu().launched.clear();
    Arguments arguments;
    arguments.src = arguments.weight = arguments.bias = arguments.grad_dst = memory;
    arguments.grad_src = arguments.grad_weight = arguments.grad_bias = memory;
    Plan(Problem::parse(line), {}, 0).execute(arguments, kStream, memory);
    std::vector<std::string> files;
    for (const std::string& source : gpu().launched) {
        const size_t begin = source.rfind("#include \"") + 10;
        files.push_back(source.substr(begin, source.find('"', begin) - begin));
    }
    return files;
}

void launch_gradients_by_cells() {
    using Names = std::vector<std::string>;
    EXPECT_EQ(launched_by_cells("n2 ci4 co4 3x4x5 k3 s2 p1 g4 bwd_data"), Names{"cells_bwd_data.cuh"});
    EXPECT_TRUE(contains(gpu().launched.front(), "kHasBias = false")) << "the bias is fwd's";
    const Names halves = {"cells_bwd_weight.cuh", "add_splits.cuh"};
    EXPECT_EQ(launched_by_cells("n2 ci4 co4 3x4x5 k3 s2 p1 g4 bwd_weight"), halves);
    EXPECT_EQ(launched_by_cells("n0 ci4 co4 3x4x5 k3 s2 p1 g4 bwd_weight"), halves);
}

TEST(MadeUpGpuDeathTest, CellsLaunchTheirGradients) {
    ON_A_MADE_UP_GPU(launch_gradients_by_cells);
}

void try_the_next_for_gradients() {
    for (const Direction direction : {Direction::bwd_data, Direction::bwd_weight}) {
        Problem problem = Problem::parse(kProblem);
        problem.direction = direction;
        gpu().not_launched = "";
        const std::vector<std::string> first = tried(problem);
        ASSERT_EQ(first.size(), 1U) << name(direction);
        gpu().not_launched = ".cuh"; // all of them
        const std::vector<std::string> all = tried(problem);
        ASSERT_GE(all.size(), 2U) << name(direction);
        EXPECT_EQ(all.front(), first.front()) << name(direction);
        EXPECT_EQ(all[all.size() - 2], "direct") << name(direction);
        EXPECT_EQ(all.back(), "") << name(direction);
    }
}

TEST(MadeUpGpuDeathTest, GradientsGoTheSameWay) {
    ON_A_MADE_UP_GPU(try_the_next_for_gradients);
}

/// The files of the kernels that the epilogue's backward launches, or that its failure names.
std::string launched_for(const char* line, const char* chain, bool with_bias = false) {
    alignas(256) static unsigned char memory[256]; // no kernel runs
    const Epilogue epilogue = Epilogue::parse(chain);
    EpilogueGradients gradients;
    gradients.grad_dst = gradients.saved = gradients.grad_preactivation = memory;
    gradients.operands.assign(static_cast<size_t>(epilogue.operand_count()), memory);
    gradients.grad_operands.assign(gradients.operands.size(), memory);
    gpu().launched.clear();
    try {
        EpilogueBwd(Problem::parse(line), epilogue, device(0), with_bias).execute(gradients, memory, kStream, memory);
    } catch (const KernelFailure& failure) {
        EXPECT_TRUE(contains(failure.what(), "epilogue_bwd_sums.cuh cannot be loaded")) << failure.what();
        return "none of " + std::to_string(gpu().launched.size());
    }
    std::string files;
    for (const std::string& source : gpu().launched)
        files += contains(source, "epilogue_bwd_sums.cuh") ? " sums" : " packs";
    return files;
}

void run_an_epilogue_backward() {
    EXPECT_EQ(launched_for("n2 ci1 co3 4x4x4 k1", "relu"), " packs");
    EXPECT_EQ(launched_for("n2 ci1 co3 4x4x4 k1", "relu", true), " packs sums");
    EXPECT_EQ(launched_for("n2 ci1 co3 4x4x4 k1", "channel_mul relu residual_add channel_add"), " packs sums sums");
    EXPECT_EQ(launched_for("n0 ci1 co3 4x4x4 k1", "relu"), "");
    EXPECT_EQ(launched_for("n0 ci1 co3 4x4x4 k1", "channel_mul"), " sums") << "the sum of nothing is written";
    EpilogueGradients gradients;
    gradients.operands = {&gradients};
    gradients.grad_dst = gradients.saved = gradients.grad_preactivation = reinterpret_cast<char*>(16);
    const EpilogueBwd kernel(Problem::parse("n2 ci1 co3 4x4x4 k1"), Epilogue::parse("channel_mul"), device(0), false);
    EXPECT_EQ(message_of([&] { kernel.execute(gradients, nullptr, kStream, nullptr); }),
              "epilogue_bwd needs a workspace, got a null pointer");
    gradients.saved = reinterpret_cast<char*>(24);
    EXPECT_TRUE(contains(message_of([&] { kernel.execute(gradients, nullptr, kStream, nullptr); }), "saved"));
    gpu().not_loaded = "epilogue_bwd_sums.cuh";
    EXPECT_EQ(launched_for("n2 ci1 co3 4x4x4 k1 bf16", "channel_mul"), "none of 0");
}

TEST(MadeUpGpuDeathTest, AnEpiloguesBackwardIsOnePassAndItsSums) {
    ON_A_MADE_UP_GPU(run_an_epilogue_backward);
}

void tell_what_it_lacks() {
    EXPECT_EQ(reject_device(device(0)), "");
    gpu().architectures = {70, 80};
    EXPECT_EQ(reject_device(device(0)), "NVRTC 13.0 does not compile for sm_90; it knows sm_70 sm_80");
    gpu().architectures = {90};
    gpu().driver_version = 12080;
    EXPECT_EQ(reject_device(device(0)), "NVRTC 13.0 makes kernels that the driver, for CUDA 12.8, cannot load");
    gpu().driver_version = 14000;
    EXPECT_EQ(reject_device(device(0)), "");
    EXPECT_EQ(gpu().compilations, 0);
}

TEST(MadeUpGpuDeathTest, WhatNvrtcAndDriverCannotDoIsKnownBeforehand) {
    ON_A_MADE_UP_GPU(tell_what_it_lacks);
}

/// By NVRTC 12 of that minor version.
void expect_choice(int minor, const std::string& family, int64_t refusals) {
    gpu().nvrtc_major = 12;
    gpu().nvrtc_minor = minor;
    const Choice choice = choose(Problem::parse("n8 ci64 co64 16x32x32 k3 s2 p1 bf16 bwd_weight"), {}, device(0));
    const auto lacks_wgmma = [](const Rejection& each) {
        return each.reason == "wgmma needs NVRTC 12.1 or later, got 12.0";
    };
    EXPECT_EQ(choice.family->name, family);
    EXPECT_EQ(std::count_if(choice.rejections.begin(), choice.rejections.end(), lacks_wgmma), refusals);
}

TEST(MadeUpGpuDeathTest, WgmmaNeedsNvrtc12_1) {
    ON_A_MADE_UP_GPU([] { expect_choice(0, "reduce", 3); });
    ON_A_MADE_UP_GPU([] { expect_choice(1, "sweep", 0); });
}

} // namespace
} // namespace tconv3d::cuda
