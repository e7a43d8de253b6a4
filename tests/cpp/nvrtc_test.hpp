#pragma once

#include <gtest/gtest.h>

#include "cuda/nvrtc.hpp"

namespace tconv3d::testing {

/// Tests that compile kernels. They need NVRTC, and neither a GPU nor a driver; without it they are skipped.
class NvrtcTest : public ::testing::Test {
protected:
    void SetUp() override {
        const cuda::NvrtcStatus status = cuda::nvrtc_status();
        if (!status.available) GTEST_SKIP() << status.reason;
    }
};

} // namespace tconv3d::testing
