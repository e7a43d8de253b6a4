#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tconv3d::cuda {

/// A GPU: all of it that the choice of kernels depends on.
struct Device {
    int ordinal; ///< the driver's, which is PyTorch's device index too; -1 for a model that is not in this machine
    std::string name;
    int sm; ///< compute capability 9.0 is 90
    int multiprocessors;
    int64_t shared_memory_per_block; ///< the most that a kernel may opt in to
    int64_t shared_memory_per_multiprocessor;
    int64_t l2_bytes;

    /// Whether it stands for devices that need not be in this machine.
    bool is_model() const { return ordinal < 0; }
};

/// The GPUs that the driver shows. Throws Error with the reason when there is no driver, or no GPU.
int device_count();

/// By its ordinal. Throws Error when there is no such device.
const Device& device(int ordinal);

/// A kind of GPU that plans can be made and compiled for where there is none: `h200`, or `sm_90` for the first in the
/// list of that architecture. Throws Error, with the list, for a name that it does not have.
Device device_model(std::string_view name);

/// The names that device_model takes, without the architectures.
std::vector<std::string> device_models();

} // namespace tconv3d::cuda
