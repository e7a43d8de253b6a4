#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>

#include "cuda/runtime/loaded_kernels.hpp"
#include "cuda/source/output_source.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d::cuda {

/// A kernel that is written, compiled and loaded when it is first asked for, and found without a look-up after that,
/// for as long as it stays loaded.
class LoadedFunction {
public:
    using Write = std::function<KernelRequest()>;
    LoadedFunction(Device device, Write write);

    /// To be held until it is launched.
    FunctionPtr get(Stream stream) const;
    /// Puts it into the disk cache, unless it is there. Needs no GPU.
    void compile() const;
    bool is_loaded() const;

private:
    const std::shared_ptr<KernelSlot>& slot() const;

    Device device_;
    Write write_;
    mutable std::once_flag written_;
    mutable std::shared_ptr<KernelSlot> slot_;
};

/// One kernel specialised for what its arguments ask for: with bias or without, saving the preactivation or not. Those
/// are of fwd alone: for another direction there is one kernel, whatever the arguments hold.
class Specializations {
public:
    using Write = std::function<KernelRequest(const ResultForm&)>;
    Specializations(const Device& device, Direction direction, const Write& write);

    FunctionPtr get(const Arguments& arguments, Stream stream) const;
    /// Puts the two without preactivation into the disk cache, or all that there are.
    void compile(bool saves_preactivation) const;

private:
    Direction direction_;
    std::array<LoadedFunction, 4> functions_; ///< by 2 · (has bias) + (saves preactivation)
};

} // namespace tconv3d::cuda
