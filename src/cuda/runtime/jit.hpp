#pragma once

#include <cstdint>
#include <string>

#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/driver.hpp"

namespace tconv3d::cuda {

/// A kernel that is loaded on a device, ready to launch.
struct Function {
    std::string entry;
    FunctionHandle handle;
    Context context;
    int max_threads; ///< of a block
    int registers;
    int64_t local_bytes;
    int64_t static_shared_bytes;
    int64_t dynamic_shared_bytes;
};

/// The kernel for the request: from memory, else from the disk cache, else from NVRTC. Threads that ask for the same
/// one compile it once. The reference stays valid until the process ends: keep it, and later launches look up nothing.
/// Loading is refused with an Error while `stream`, where the kernel is to run, is captured into a graph.
const Function& function(const Device& device, const KernelRequest& request, Stream stream);

/// Whether function() would find the request in memory.
bool is_loaded(const Device& device, const KernelRequest& request);

/// Extents of a grid or block. 64-bit, so that a value over the limit arrives as what it is.
struct Dim3 {
    int64_t x = 1;
    int64_t y = 1;
    int64_t z = 1;
};

/// When a kernel starts: after the one before it on the stream, or, where the driver can, beside that one, from where
/// its blocks call ptx::let_next_start. It then reads what that one writes only after ptx::wait_for_previous.
enum class Start { after, beside };

/// Starts the kernel on the stream. `arguments` holds a pointer to each of the kernel's arguments, in order.
/// Throws Error, with the values, when the grid or block is outside the limits.
void launch(const Function& function, const Dim3& grid, const Dim3& block, void** arguments, Stream stream,
            Start start = Start::after);

} // namespace tconv3d::cuda
