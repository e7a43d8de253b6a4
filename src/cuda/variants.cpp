#include "cuda/variants.hpp"

#include <utility>

namespace tconv3d::cuda {

LoadedFunction::LoadedFunction(Device device, KernelRequest request)
    : device_(std::move(device)), request_(std::move(request)) {}

const Function& LoadedFunction::get(Stream stream) const {
    const Function* found = found_.load(std::memory_order_acquire);
    if (found == nullptr) {
        found = &function(device_, request_, stream);
        found_.store(found, std::memory_order_release);
    }
    return *found;
}

Variants::Variants(const Device& device, const std::array<KernelRequest, 4>& requests)
    : forms_{LoadedFunction(device, requests[0]), LoadedFunction(device, requests[1]),
             LoadedFunction(device, requests[2]), LoadedFunction(device, requests[3])} {}

const Function& Variants::get(const Arguments& arguments, Stream stream) const {
    return forms_[(arguments.bias != nullptr ? 2U : 0U) + (arguments.preactivation != nullptr ? 1U : 0U)].get(stream);
}

} // namespace tconv3d::cuda
