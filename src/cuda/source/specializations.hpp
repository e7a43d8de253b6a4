#pragma once

#include <array>
#include <atomic>
#include <functional>

#include "cuda/runtime/jit.hpp"
#include "cuda/source/output_source.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d::cuda {

/// A kernel that is written, compiled and loaded when it is first asked for, and found without a look-up after that.
class LoadedFunction {
public:
    using Write = std::function<KernelRequest()>;
    LoadedFunction(Device device, Write write);

    const Function& get(Stream stream) const;
    /// Puts it into the disk cache, unless it is there. Needs no GPU.
    void compile() const;
    bool is_loaded() const { return found_.load(std::memory_order_acquire) != nullptr; }

private:
    Device device_;
    Write write_;
    mutable std::atomic<const Function*> found_{nullptr};
};

/// One kernel specialised for what its arguments ask for: with bias or without, saving the preactivation or not.
class Specializations {
public:
    using Write = std::function<KernelRequest(const ResultForm&)>;
    Specializations(const Device& device, const Write& write);

    const Function& get(const Arguments& arguments, Stream stream) const;
    /// Puts the two without preactivation into the disk cache, or all four.
    void compile(bool saves_preactivation) const;

private:
    std::array<LoadedFunction, 4> functions_; ///< by 2 · (has bias) + (saves preactivation)
};

} // namespace tconv3d::cuda
