#include "cuda/source/specializations.hpp"

#include <future>
#include <utility>
#include <vector>

namespace tconv3d::cuda {

LoadedFunction::LoadedFunction(Device device, Write write) : device_(std::move(device)), write_(std::move(write)) {}

const Function& LoadedFunction::get(Stream stream) const {
    const Function* found = found_.load(std::memory_order_acquire);
    if (found == nullptr) {
        found = &function(device_, write_(), stream);
        found_.store(found, std::memory_order_release);
    }
    return *found;
}

void LoadedFunction::compile() const {
    cubin_for(device_.sm, write_(), disk_cache());
}

Specializations::Specializations(const Device& device, const Write& write)
    : functions_{LoadedFunction(device, [write] { return write({false, false}); }),
                 LoadedFunction(device, [write] { return write({false, true}); }),
                 LoadedFunction(device, [write] { return write({true, false}); }),
                 LoadedFunction(device, [write] { return write({true, true}); })} {}

const Function& Specializations::get(const Arguments& arguments, Stream stream) const {
    const size_t index = (arguments.bias != nullptr ? 2U : 0U) + (arguments.preactivation != nullptr ? 1U : 0U);
    return functions_[index].get(stream);
}

void Specializations::compile(bool saves_preactivation) const {
    std::vector<std::future<void>> compiling;
    for (size_t index = 0; index < functions_.size(); index += saves_preactivation ? 1 : 2)
        compiling.push_back(std::async([&kernel = functions_[index]] { kernel.compile(); }));
    for (std::future<void>& each : compiling) each.get();
}

} // namespace tconv3d::cuda
