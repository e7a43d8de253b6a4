#pragma once

#include "made_up_devices.hpp"
#include "nvrtc_test.hpp"

namespace tconv3d::testing {

/// A kernel with wgmma has all its values in registers, fits into shared memory, and has its products side by side.
inline void expect_registers(const cuda::KernelRequest& request, int64_t threads, const std::string& where) {
    const cuda::Compiled compiled = cuda::compile_for(kHopper.sm, request);
    EXPECT_EQ(compiled.spill_bytes, 0) << where;
    EXPECT_EQ(compiled.local_bytes, 0) << where << ": an array is not in registers";
    EXPECT_LE(compiled.shared_bytes + request.dynamic_shared_bytes, kHopper.shared_memory_per_block) << where;
    EXPECT_EQ(compiled.log.find("warning"), std::string::npos) << where << "\n" << compiled.log;
    EXPECT_EQ(compiled.log.find("serialized"), std::string::npos) << where << "\n" << compiled.log;
    expect_registers_change_hands(compiled, threads, where);
}

} // namespace tconv3d::testing
