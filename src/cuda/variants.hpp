#pragma once

#include <array>
#include <atomic>

#include "cuda/jit.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d::cuda {

/// A kernel that is compiled and loaded when it is first asked for, and found without a look-up after that.
class LoadedFunction {
public:
    LoadedFunction(Device device, KernelRequest request);

    const Function& get(Stream stream) const;
    bool is_loaded() const { return found_.load(std::memory_order_acquire) != nullptr; }

private:
    Device device_;
    KernelRequest request_;
    mutable std::atomic<const Function*> found_{nullptr};
};

/// One kernel in the forms that its arguments ask for: with bias or without, keeping the preactivation or not.
class Variants {
public:
    /// requests: by 2 · (has bias) + (saves preactivation).
    Variants(const Device& device, const std::array<KernelRequest, 4>& requests);

    const Function& get(const Arguments& arguments, Stream stream) const;

private:
    std::array<LoadedFunction, 4> forms_;
};

/// The requests of all forms; make(has_bias, saves_preactivation) gives one.
template <typename Make>
std::array<KernelRequest, 4> every_variant(const Make& make) {
    return {make(false, false), make(false, true), make(true, false), make(true, true)};
}

} // namespace tconv3d::cuda
