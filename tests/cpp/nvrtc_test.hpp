#pragma once

#include <gtest/gtest.h>

#include "cuda/compile.hpp"
#include "cuda/nvrtc.hpp"
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

/// Where machine code can be read.
inline void expect_sums_are_waited_for(const cuda::Compiled& kernel, const std::string& where) {
    if (!no_disassembler().empty()) return;
    EXPECT_EQ(touches_sums_under_way(disassemble(kernel.cubin)), "") << where;
}

} // namespace tconv3d::testing
