#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/driver.hpp"

namespace tconv3d::cuda {

/// A kernel that is loaded on a device, ready to launch.
struct Function {
    std::string entry;
    FunctionHandle handle = nullptr;
    Module module = nullptr;
    Context context = nullptr;
    int max_threads = 0; ///< of a block
    int registers = 0;
    int64_t local_bytes = 0;
    int64_t static_shared_bytes = 0;
    int64_t dynamic_shared_bytes = 0;
    /// Whether a graph may hold it, which can be replayed for as long as the process lives: it stays loaded.
    mutable std::atomic<bool> captured{false};
};

/// Whoever holds it may launch the function.
using FunctionPtr = std::shared_ptr<const Function>;

/// Loads the kernel from the disk cache, else from NVRTC. Throws KernelFailure when the kernel is at fault, Error when
/// something else is.
FunctionPtr load_function(const Device& device, const KernelRequest& request);

/// Why no kernel can be compiled for the device or loaded on it; empty when kernels can.
std::string reject_device(const Device& device);

/// Extents of a grid or block. 64-bit, so that a value over the limit arrives as what it is.
struct Dim3 {
    int64_t x = 1;
    int64_t y = 1;
    int64_t z = 1;
};

/// A grid has no more blocks along x.
constexpr int64_t kMostBlocks = 2147483647;

/// When a kernel starts: after the one before it on the stream, or, where the driver can, beside that one, from where
/// its blocks call ptx::let_next_start. It then reads what that one writes only after ptx::wait_for_previous.
enum class Start { after, beside };

/// Starts the kernel on the stream. `arguments` holds a pointer to each of the kernel's arguments, in order.
/// Throws KernelFailure, with the values, when the grid or block is outside the limits.
void launch(const Function& function, const Dim3& grid, const Dim3& block, void** arguments, Stream stream,
            Start start = Start::after);

} // namespace tconv3d::cuda
