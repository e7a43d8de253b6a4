#include "cuda/runtime/loaded_kernels.hpp"

#include <algorithm>
#include <utility>

#include "core/lasting.hpp"
#include "cuda/runtime/context.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

/// A module takes about 100 KiB of the GPU's memory. A training or serving process has far fewer kernels.
constexpr size_t kMostLoaded = 512;

Digest key_of(const Device& device, const KernelRequest& request) {
    return sha256(std::to_string(device.ordinal) + '\0' + request.file + '\0' + request.entry + '\0' +
                  std::to_string(request.dynamic_shared_bytes) + '\0' + request.prelude);
}

} // namespace

KernelSlot::KernelSlot(Device device_of, KernelRequest request_of)
    : device(std::move(device_of)), request(std::move(request_of)), key(key_of(device, request)) {}

std::shared_ptr<KernelSlot> LoadedKernels::slot(const Device& device, const KernelRequest& request) {
    auto made = std::make_shared<KernelSlot>(device, request);
    const std::lock_guard<std::mutex> lock(mutex_);
    made->use = ++uses_;
    return slots_.emplace(made->key, made).first->second;
}

FunctionPtr LoadedKernels::get(const std::shared_ptr<KernelSlot>& slot, Stream stream) {
    slot->use = ++uses_;
    FunctionPtr function;
    {
        const std::lock_guard<std::mutex> lock(slot->mutex);
        if (slot->function) return slot->function;
        if (!slot->failure.empty()) throw KernelFailure(slot->failure);
        // A thread of load(), which compiles one kernel beside another, has none.
        const ContextScope scope(primary_context(slot->device));
        if (is_capturing(stream)) {
            throw Error(
                "kernel " + slot->request.entry + " of " + slot->request.file +
                " is not loaded, and cannot be while a CUDA graph is captured: run the same problem once before the "
                "capture");
        }
        try {
            slot->function = load_function(slot->device, slot->request);
        } catch (const KernelFailure& failure) {
            slot->failure = failure.what();
        }
        function = slot->function;
    }
    add(slot);
    unload(take_least_recent());
    if (!function) throw KernelFailure(slot->failure);
    return function;
}

size_t LoadedKernels::size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return slots_.size();
}

/// It may have been removed since a plan got it.
void LoadedKernels::add(const std::shared_ptr<KernelSlot>& slot) {
    const std::lock_guard<std::mutex> lock(mutex_);
    slots_.emplace(slot->key, slot);
}

/// More than need be, so that the device is waited for once in a while only.
std::vector<LoadedKernels::Removed> LoadedKernels::take_least_recent() {
    std::vector<Removed> removed;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (slots_.size() <= most_) return removed;
    std::vector<std::pair<uint64_t, std::shared_ptr<KernelSlot>>> order;
    order.reserve(slots_.size());
    for (const auto& [key, slot] : slots_) order.emplace_back(slot->use, slot);
    std::sort(order.begin(), order.end());
    for (const auto& [use, slot] : order) {
        if (slots_.size() <= most_ - most_ / 4) break;
        const std::unique_lock<std::mutex> own(slot->mutex, std::try_to_lock);
        if (!own.owns_lock()) continue; // it is being loaded
        FunctionPtr& function = slot->function;
        if (function && (function.use_count() > 1 || function->captured)) continue;
        if (function) removed.push_back({slot, std::move(function)});
        slots_.erase(slot->key);
    }
    return removed;
}

void LoadedKernels::unload(std::vector<Removed> removed) {
    while (!removed.empty()) {
        const Context context = removed.front().function->context;
        const ContextScope scope(context);
        // Launches that nobody waits for may still be under way. Where waiting fails, as while another thread captures
        // a graph, nothing is unloaded.
        const bool idle = driver().cuCtxSynchronize() == kSuccess;
        const auto others = std::partition(removed.begin(), removed.end(),
                                           [&](const Removed& each) { return each.function->context != context; });
        std::for_each(others, removed.end(), [&](const Removed& each) {
            if (idle) {
                driver().cuModuleUnload(each.function->module);
            } else {
                put_back(each);
            }
        });
        removed.erase(others, removed.end());
    }
}

void LoadedKernels::put_back(const Removed& removed) {
    {
        const std::lock_guard<std::mutex> lock(removed.slot->mutex);
        if (removed.slot->function) return; // it was loaded again; this one stays loaded, as work may still need it
        removed.slot->function = removed.function;
    }
    add(removed.slot);
}

LoadedKernels& loaded_kernels() {
    static Lasting<LoadedKernels> all(kMostLoaded);
    return *all;
}

} // namespace tconv3d::cuda
