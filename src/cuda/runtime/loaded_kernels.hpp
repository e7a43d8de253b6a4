#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/runtime/jit.hpp"

namespace tconv3d::cuda {

/// One kernel on one device, loaded or not. Plans keep it.
struct KernelSlot {
    KernelSlot(Device device_of, KernelRequest request_of);

    const Device device;
    const KernelRequest request;
    const Digest key; ///< of both

    std::mutex mutex;             ///< held while the kernel is compiled and loaded
    FunctionPtr function;         ///< null while it is not loaded
    std::string failure;          ///< why it cannot be loaded; then it is not tried again
    std::atomic<uint64_t> use{0}; ///< when it was last asked for: a larger number is later
};

/// The kernels that are loaded, and those that cannot be. When there are more than `most`, those that were asked for
/// least recently are unloaded; a plan that asks again has them loaded again.
///
/// A kernel is unloaded only when that disturbs nobody: no thread is about to launch it; the device has done all work,
/// which is waited for; and no graph can hold it, because a kernel that was launched into a capture stays for ever.
class LoadedKernels {
public:
    explicit LoadedKernels(size_t most) : most_(most) {}

    /// Threads that ask for the same kernel get the same slot.
    std::shared_ptr<KernelSlot> slot(const Device& device, const KernelRequest& request);

    /// The slot's function, which is loaded if it is not. Threads that ask at once compile it once. Refused with an
    /// Error while `stream`, where the kernel is to run, is captured into a graph, unless it is loaded.
    FunctionPtr get(const std::shared_ptr<KernelSlot>& slot, Stream stream);

    size_t size() const;

private:
    struct Removed {
        std::shared_ptr<KernelSlot> slot;
        FunctionPtr function;
    };

    void add(const std::shared_ptr<KernelSlot>& slot);
    std::vector<Removed> take_least_recent();
    void unload(std::vector<Removed> removed);
    void put_back(const Removed& removed);

    const size_t most_;
    mutable std::mutex mutex_;
    std::map<Digest, std::shared_ptr<KernelSlot>> slots_;
    std::atomic<uint64_t> uses_{0};
};

/// Those of the process.
LoadedKernels& loaded_kernels();

} // namespace tconv3d::cuda
