#include "cuda/variants.hpp"

#include <utility>

namespace tconv3d::cuda {

Variants::Variants(Device device, std::array<KernelRequest, 4> requests)
    : device_(std::move(device)), requests_(std::move(requests)) {}

const Function& Variants::get(const Arguments& arguments, Stream stream) const {
    const size_t form = (arguments.bias != nullptr ? 2U : 0U) + (arguments.preactivation != nullptr ? 1U : 0U);
    const Function* found = functions_[form].load(std::memory_order_acquire);
    if (found == nullptr) {
        found = &function(device_, requests_[form], stream);
        functions_[form].store(found, std::memory_order_release);
    }
    return *found;
}

} // namespace tconv3d::cuda
