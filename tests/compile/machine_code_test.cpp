#include "machine_code.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/direct/direct.hpp"
#include "nvrtc_test.hpp"

namespace tconv3d::testing {
namespace {

const std::string kProduct = "HGMMA.64x16x16.F32.BF16 R24, gdesc[UR4], R24", kLast = kProduct + ", gsb0";
const std::string kOther = "HGMMA.64x16x16.F32.BF16 R40, gdesc[UR4], R40, gsb0";
const std::string kWait = "WARPGROUP.DEPBAR.LE gsb0, 0x0", kWaitButOne = "WARPGROUP.DEPBAR.LE gsb0, 0x1";

TEST(MachineCode, SumsAreTouchedWhenTheyAreDone) {
    EXPECT_EQ(touches_sums_under_way({"MOV R24, RZ", kProduct, kLast, "MOV R2, R32", kWait, "MOV R3, R31"}), "");
    EXPECT_EQ(touches_sums_under_way({kLast, kOther, kWaitButOne, "FADD R2, R24, R3", kWait, "FADD R2, R40, R3"}), "");
    EXPECT_EQ(touches_sums_under_way({"HGMMA.64x16x16.F32.BF16 RZ, gdesc[UR4], RZ, gsb0", "MOV R2, R3"}), "");
}

TEST(MachineCode, NamesWhatTouchesThemBefore) {
    EXPECT_EQ(touches_sums_under_way({kProduct, kLast, "MOV R2, R31", kWait}), "MOV R2, R31");
    EXPECT_EQ(touches_sums_under_way({kProduct, kLast, "CS2R R24, SRZ", kWait}), "CS2R R24, SRZ");
    EXPECT_EQ(touches_sums_under_way({kLast, kOther, kWaitButOne, "MOV R2, R40"}), "MOV R2, R40");
}

TEST(MachineCode, CountsLoadsUntilOneIsNeeded) {
    const std::string first = "@P0 LDG.E.U16.CONSTANT R16, desc[UR20][R2.64]",
                      second = "LDG.E R17, desc[UR20][R2.64+0x2]";
    EXPECT_EQ(most_loads_under_way({first, "MOV R3, R15", second, "PRMT R16, R16, 0x5410, R17"}), 2u);
    EXPECT_EQ(most_loads_under_way({first, "PRMT R16, R16, 0x5410, RZ", second, "STS [R2], R17"}), 1u);
}

class MachineCodeOfKernels : public NvrtcTest {};

/// Tests that compile kernels look at their machine code where it can be read, and are silent where it cannot.
TEST_F(MachineCodeOfKernels, IsRead) {
    if (!no_disassembler().empty()) GTEST_SKIP() << no_disassembler();
    const Problem problem = Problem::parse("ci2 co2 3x3x3 k2");
    const std::vector<std::string> instructions =
        disassemble(cuda::compile_for(90, cuda::direct_request(problem, {}, {true, false})).cubin);
    const auto exits = [](const std::string& instruction) { return instruction.find("EXIT") != std::string::npos; };
    EXPECT_TRUE(std::any_of(instructions.begin(), instructions.end(), exits));
}

} // namespace
} // namespace tconv3d::testing
