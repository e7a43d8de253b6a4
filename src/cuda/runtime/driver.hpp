#pragma once

#include <string>

#include "cuda/runtime/driver_api.hpp"
#include "tconv3d/cuda_device.hpp"

namespace tconv3d::cuda {

/// The CUDA driver of this machine, opened and initialised at the first call: libcuda.so.1, or the file that
/// TCONV3D_CUDA_DRIVER names. Throws Error with the reason when there is none, or no GPU.
const Driver& driver();

struct DriverStatus {
    bool available;
    std::string reason;  ///< why it is not available
    std::string version; ///< the newest CUDA that the driver serves, such as 13.0
};

/// The same as an answer. Initialises the driver, after which a forked child cannot use the GPU.
DriverStatus driver_status();

/// Opens, resolves and initialises the driver in this file.
Driver open_driver(const std::string& file);

/// The newest CUDA that the driver serves: 13000 is 13.0.
int driver_version();

/// Throws Error, with the error's name and meaning, unless the driver call `call` succeeded.
void check(Result result, const char* call);

/// The same for a call about one kernel: throws KernelFailure when the kernel is at fault. It is not where memory is
/// short, where work before it has failed, or while a graph is captured.
void check_kernel(Result result, const char* call);

} // namespace tconv3d::cuda
