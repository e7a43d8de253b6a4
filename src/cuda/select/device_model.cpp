#include <algorithm>

#include "core/lasting.hpp"
#include "tconv3d/cuda_device.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

struct Model {
    const char* name;
    Device device;
};

/// What a block and a multiprocessor have of shared memory, by architecture: CUDA's programming guide, "technical
/// specifications per compute capability".
struct SharedMemory {
    int64_t block;
    int64_t multiprocessor;
};
constexpr SharedMemory kSm75 = {64 << 10, 64 << 10};
constexpr SharedMemory kSm80 = {163 << 10, 164 << 10};
constexpr SharedMemory kSm86 = {99 << 10, 100 << 10};  // sm_89, sm_120 and sm_121 too
constexpr SharedMemory kSm90 = {227 << 10, 228 << 10}; // sm_100 and sm_103 too

Model model(const char* name, const char* device, int sm, int multiprocessors, SharedMemory shared, int64_t l2_mib) {
    return {name, {-1, device, sm, multiprocessors, shared.block, shared.multiprocessor, l2_mib << 20}};
}

/// Names as the driver gives them, under which `tune` remembers. The first of an architecture stands for it.
const std::vector<Model>& models() {
    static const Lasting<std::vector<Model>> all(std::vector<Model>{
        model("h200", "NVIDIA H200", 90, 132, kSm90, 60),
        model("h100", "NVIDIA H100 80GB HBM3", 90, 132, kSm90, 50),
        model("h100-pcie", "NVIDIA H100 PCIe", 90, 114, kSm90, 50),
        model("h20", "NVIDIA H20", 90, 78, kSm90, 60),
        model("a100", "NVIDIA A100-SXM4-80GB", 80, 108, kSm80, 40),
        model("a30", "NVIDIA A30", 80, 56, kSm80, 24),
        model("rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, kSm86, 6),
        model("a10", "NVIDIA A10", 86, 72, kSm86, 6),
        model("a10g", "NVIDIA A10G", 86, 80, kSm86, 6),
        model("rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, kSm86, 72),
        model("l4", "NVIDIA L4", 89, 58, kSm86, 48),
        model("l40s", "NVIDIA L40S", 89, 142, kSm86, 96),
        model("b200", "NVIDIA B200", 100, 148, kSm90, 126),
        model("b300", "NVIDIA B300 SXM6 AC", 103, 148, kSm90, 126),
        model("rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, kSm86, 96),
        model("gb10", "NVIDIA GB10", 121, 48, kSm86, 24),
        model("t4", "Tesla T4", 75, 40, kSm75, 4),
    });
    return *all;
}

} // namespace

Device device_model(std::string_view name) {
    const auto is_named = [&](const Model& each) {
        return name == each.name || name == "sm_" + std::to_string(each.device.sm);
    };
    const auto found = std::find_if(models().begin(), models().end(), is_named);
    if (found != models().end()) return found->device;
    std::string known;
    for (const Model& each : models())
        known += std::string(known.empty() ? "" : ", ") + each.name + " (sm_" + std::to_string(each.device.sm) + ")";
    throw Error("there is no model of a GPU named '" + std::string(name) + "'; there are: " + known);
}

std::vector<std::string> device_models() {
    std::vector<std::string> names;
    for (const Model& each : models()) names.emplace_back(each.name);
    return names;
}

} // namespace tconv3d::cuda
