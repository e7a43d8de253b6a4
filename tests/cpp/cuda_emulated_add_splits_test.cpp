#include <gtest/gtest.h>

#include "cuda/splits/add_splits.hpp"
#include "emulated.hpp"

namespace tconv3d::cuda {
namespace {

/// More splits than the families' own cases have, shared by several threads or not.
TEST(AddSplitsEmulated, IsExactOnIntegersForAnyNumberOfSplits) {
    for (const char* dtype : {"f32", "f64", "bf16"}) {
        const KernelRequest request = add_splits_request(Problem::parse(std::string("ci1 co1 1x1x1 k1 ") + dtype));
        const testing::Emulator emulator;
        emulator.write("prelude.hpp", "#include \"base/storage.cuh\"\n" + request.prelude);
        ASSERT_TRUE(emulator.compile("add_splits.cpp")) << dtype;
        EXPECT_TRUE(emulator.execute()) << dtype;
    }
}

} // namespace
} // namespace tconv3d::cuda
