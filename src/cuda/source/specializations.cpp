#include "cuda/source/specializations.hpp"

#include <future>
#include <utility>
#include <vector>

namespace tconv3d::cuda {

LoadedFunction::LoadedFunction(Device device, Write write) : device_(std::move(device)), write_(std::move(write)) {}

const std::shared_ptr<KernelSlot>& LoadedFunction::slot() const {
    std::call_once(written_, [this] { slot_ = loaded_kernels().slot(device_, write_()); });
    return slot_;
}

FunctionPtr LoadedFunction::get(Stream stream) const {
    return loaded_kernels().get(slot(), stream);
}

bool LoadedFunction::is_loaded() const {
    const std::lock_guard<std::mutex> lock(slot()->mutex);
    return slot_->function != nullptr;
}

void LoadedFunction::compile() const {
    cubin_for(device_.sm, write_(), disk_cache());
}

Specializations::Specializations(const Device& device, Direction direction, const Write& write)
    : direction_(direction), functions_{LoadedFunction(device, [write] { return write({false, false}); }),
                                        LoadedFunction(device, [write] { return write({false, true}); }),
                                        LoadedFunction(device, [write] { return write({true, false}); }),
                                        LoadedFunction(device, [write] { return write({true, true}); })} {}

FunctionPtr Specializations::get(const Arguments& arguments, Stream stream) const {
    const size_t index = (arguments.bias != nullptr ? 2U : 0U) + (arguments.preactivation != nullptr ? 1U : 0U);
    return functions_[direction_ == Direction::fwd ? index : 0].get(stream);
}

void Specializations::compile(bool saves_preactivation) const {
    if (direction_ != Direction::fwd) return functions_[0].compile();
    std::vector<std::future<void>> compiling;
    for (size_t index = 0; index < functions_.size(); index += saves_preactivation ? 1 : 2)
        compiling.push_back(std::async([&kernel = functions_[index]] { kernel.compile(); }));
    for (std::future<void>& each : compiling) each.get();
}

} // namespace tconv3d::cuda
