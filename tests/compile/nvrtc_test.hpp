#pragma once

#include <gtest/gtest.h>

#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "cuda/tensorcore/config.hpp"
#include "machine_code.hpp"

namespace tconv3d::testing {

/// Tests that compile kernels. They need NVRTC, and neither a GPU nor a driver; without it they are skipped.
class NvrtcTest : public ::testing::Test {
protected:
    void SetUp() override {
        const cuda::NvrtcStatus status = cuda::nvrtc_status();
        if (!status.available) GTEST_SKIP() << status.reason;
    }
};

/// Those of kernels with wgmma, which an NVRTC may be too old for.
class WgmmaTest : public NvrtcTest {
protected:
    void SetUp() override {
        NvrtcTest::SetUp();
        if (IsSkipped()) return;
        const std::string reason = cuda::reject_wgmma(90);
        if (!reason.empty()) GTEST_SKIP() << reason;
    }
};

/// Where machine code can be read.
inline void expect_sums_are_waited_for(const cuda::Compiled& kernel, const std::string& where) {
    if (!no_disassembler().empty()) return;
    EXPECT_EQ(touches_sums_under_way(disassemble(kernel.cubin)), "") << where;
}

/// A kernel whose warpgroups take registers from one another. All of them together have what they begin with: with less
/// than the host counts on, those who take some would wait for ever. The assembler says where it ignores that they do.
inline void expect_registers_change_hands(const cuda::Compiled& kernel, int64_t threads, const std::string& where) {
    constexpr int64_t kAll = 1 << 16; // of a multiprocessor, which gives them in eights
    EXPECT_EQ(kernel.registers, kAll / threads / 8 * 8) << where;
    EXPECT_EQ(kernel.log.find("setmaxnreg"), std::string::npos) << where << "\n" << kernel.log;
}

/// A kernel for tensor cores whose values have the room that its tile counts on.
inline void expect_fits(const cuda::Compiled& kernel, const Problem& problem, const cuda::tensorcore::Config& config,
                        const std::string& where) {
    // No registers change hands where mma.sync multiplies: at four phases along w some addresses do not fit, and split
    // fp32 has all sums twice.
    const bool wgmma = config.engine == cuda::tensorcore::Engine::wgmma, split = cuda::tensorcore::parts(problem) == 2;
    const int64_t allowed = wgmma ? 0 : split ? 2048 : 128;
    EXPECT_LE(kernel.spill_bytes, allowed) << where;
    EXPECT_LE(kernel.local_bytes, kernel.spill_bytes) << where << ": an array is not in registers";
    EXPECT_EQ(kernel.log.find("serialized"), std::string::npos) << where << "\n" << kernel.log;
    if (!wgmma) return;
    expect_sums_are_waited_for(kernel, where);
    expect_registers_change_hands(kernel, config.threads(), where);
}

} // namespace tconv3d::testing
