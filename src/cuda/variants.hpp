#pragma once

#include <array>
#include <atomic>

#include "cuda/jit.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d::cuda {

/// One kernel in the forms that its arguments ask for: with bias or without, keeping the preactivation or not.
/// A form is compiled and loaded when it is first asked for, and found without a look-up after that.
class Variants {
public:
    /// requests: by 2 · (has bias) + (saves preactivation).
    Variants(Device device, std::array<KernelRequest, 4> requests);

    const Function& get(const Arguments& arguments, Stream stream) const;

private:
    Device device_;
    std::array<KernelRequest, 4> requests_;
    mutable std::array<std::atomic<const Function*>, 4> functions_{};
};

/// The requests of all forms; make(has_bias, saves_preactivation) gives one.
template <typename Make>
std::array<KernelRequest, 4> every_variant(const Make& make) {
    return {make(false, false), make(false, true), make(true, false), make(true, true)};
}

} // namespace tconv3d::cuda
