// Plans for a GPU that is not there.
#include <gtest/gtest.h>

#include "made_up_devices.hpp"
#include "tconv3d/cuda.hpp"
#include "tensors.hpp"

namespace tconv3d::cuda {
namespace {

using testing::error_of;

TEST(DeviceModel, HasTheNumbersOfTheDevice) {
    const Device model = device_model("h200");
    EXPECT_EQ(model.ordinal, -1);
    EXPECT_EQ(model.name, "NVIDIA H200");
    EXPECT_EQ(model.sm, testing::kHopper.sm);
    EXPECT_EQ(model.multiprocessors, testing::kHopper.multiprocessors);
    EXPECT_EQ(model.shared_memory_per_block, testing::kHopper.shared_memory_per_block);
    EXPECT_EQ(model.shared_memory_per_multiprocessor, testing::kHopper.shared_memory_per_multiprocessor);
    EXPECT_EQ(model.l2_bytes, testing::kHopper.l2_bytes);
    EXPECT_EQ(device_model("a100").shared_memory_per_block, testing::kAmpere.shared_memory_per_block);
}

TEST(DeviceModel, TheFirstOfAnArchitectureStandsForIt) {
    EXPECT_EQ(device_model("sm_90").name, "NVIDIA H200");
    EXPECT_EQ(device_model("sm_80").name, "NVIDIA A100-SXM4-80GB");
}

TEST(DeviceModel, AnUnknownNameListsTheOthers) {
    for (const char* name : {"h2000", "sm_9", "90", ""}) {
        const std::string message = error_of([&] { device_model(name); });
        EXPECT_NE(message.find("'" + std::string(name) + "'"), std::string::npos) << message;
        for (const std::string& known : device_models()) EXPECT_NE(message.find(known), std::string::npos) << message;
    }
}

TEST(DeviceModel, EachCanBePlannedFor) {
    for (const std::string& name : device_models()) {
        const Device model = device_model(name);
        for (const char* problem : {"n8 ci64 co32 16x32x32 k3 s2 p1 op1 bf16", "n2 ci8 co8 16x16x16 k4 s2 p1 g8"}) {
            const Plan plan(Problem::parse(problem), Epilogue::parse("relu"), model);
            const std::string told = plan.explain();
            EXPECT_NE(told.find("model: " + model.name), std::string::npos) << told;
            EXPECT_NE(told.find(std::to_string(model.multiprocessors) + " multiprocessors"), std::string::npos) << told;
        }
    }
}

TEST(DeviceModel, ItsPlanDoesNotExecute) {
    const Plan plan(Problem::parse("n1 ci2 co2 3x3x3 k2"), {}, device_model("h200"));
    const std::string message = error_of([&] { plan.execute({}, nullptr, nullptr); });
    EXPECT_NE(message.find("NVIDIA H200"), std::string::npos) << message;
}

} // namespace
} // namespace tconv3d::cuda
