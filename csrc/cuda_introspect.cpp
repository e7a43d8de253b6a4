#include <ATen/core/List.h>
#include <torch/library.h>

#include "core/argument_checks.hpp"
#include "core/explain_text.hpp"
#include "cuda/epilogue_bwd/epilogue_bwd.hpp"
#include "cuda/runtime/cache.hpp"
#include "cuda/runtime/driver.hpp"
#include "cuda/runtime/jit.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "cuda_plans.hpp"
#include "cuda_stream.hpp"
#include "json.hpp"
#include "ops.hpp"
#include "tconv3d/cuda.hpp"

/// What the library says about CUDA on this machine. No op here needs a GPU to answer.
namespace tconv3d::ops {

namespace {

std::string available(bool value) {
    return member("available", value ? "true" : "false");
}

std::string stream_json() {
    const std::string failure = current_stream_failure();
    return object({available(failure.empty()), member("reason", quote(failure))});
}

std::string driver_json(const cuda::DriverStatus& status) {
    return object({available(status.available), member("reason", quote(status.reason)),
                   member("version", quote(status.version))});
}

std::string nvrtc_json() {
    const cuda::NvrtcStatus status = cuda::nvrtc_status();
    return object({available(status.available), member("reason", quote(status.reason)),
                   member("version", quote(status.version)), member("file", quote(status.file))});
}

std::string cache_json() {
    const cuda::CacheStats stats = cuda::disk_cache().stats();
    const cuda::CacheUsage usage = cuda::disk_cache().usage();
    return object({member("folder", quote(stats.folder.path)), member("reason", quote(stats.folder.reason)),
                   member("files", usage.files), member("bytes", usage.bytes),
                   member("most_bytes", stats.folder.most_bytes), member("failure", quote(usage.failure)),
                   member("warning", quote(stats.folder.warning)), member("hits", stats.hits),
                   member("misses", stats.misses), member("stores", stats.stores), member("failures", stats.failures),
                   member("last_failure", quote(stats.last_failure))});
}

std::string device_json(const cuda::Device& device) {
    const std::string failure = cuda::nvrtc_status().available ? cuda::reject_device(device) : "";
    return object({member("name", quote(device.name)), member("sm", device.sm),
                   member("multiprocessors", device.multiprocessors),
                   member("shared_memory_per_block", device.shared_memory_per_block),
                   member("l2_bytes", device.l2_bytes), member("failure", quote(failure))});
}

std::string cuda_machine() {
    const cuda::DriverStatus driver = cuda::driver_status();
    std::vector<std::string> devices;
    for (int i = 0, count = driver.available ? cuda::device_count() : 0; i < count; ++i)
        devices.push_back(device_json(cuda::device(i)));
    return object({member("torch", stream_json()), member("driver", driver_json(driver)), member("nvrtc", nvrtc_json()),
                   member("cache", cache_json()), member("devices", array(devices)),
                   member("implementations", names(cuda::implementations()))});
}

/// What a call on the device runs, and why. Device: an ordinal or a model.
template <typename Device>
std::string explain_call(const Problem& problem, const Epilogue& epilogue, const Device& device) {
    require_plannable(problem, epilogue);
    const std::string reason = left_to_pytorch(problem);
    if (reason.empty()) return cuda::Plan(problem, epilogue, device).explain();
    return explain_problem(problem, epilogue) + explain_line("implementation", "PyTorch's operator: " + reason);
}

std::string cuda_explain(Text problem, Text epilogue, int64_t device) {
    return translating_errors([&] {
        return explain_call(Problem::parse(view(problem)), Epilogue::parse(view(epilogue)), static_cast<int>(device));
    });
}

cuda::Device model(Text gpu, int64_t multiprocessors) {
    cuda::Device device = cuda::device_model(view(gpu));
    if (multiprocessors == 0 || multiprocessors == device.multiprocessors) return device;
    constexpr int64_t kMost = 1024;
    if (multiprocessors < 0 || multiprocessors > kMost)
        throw Error("a GPU has 1 to " + std::to_string(kMost) + " multiprocessors, got " +
                    std::to_string(multiprocessors));
    device.multiprocessors = static_cast<int>(multiprocessors);
    // Another name: what was tuned for the device is not for this one.
    device.name += " with " + std::to_string(multiprocessors) + " multiprocessors";
    return device;
}

std::string cuda_model(Text gpu, int64_t multiprocessors) {
    return translating_errors([&] { return device_json(model(gpu, multiprocessors)); });
}

std::string cuda_model_explain(Text problem, Text epilogue, Text gpu, int64_t multiprocessors) {
    return translating_errors([&] {
        return explain_call(Problem::parse(view(problem)), Epilogue::parse(view(epilogue)),
                            model(gpu, multiprocessors));
    });
}

void cuda_model_compile(Text problem, Text epilogue, Text gpu, int64_t multiprocessors) {
    translating_errors([&] {
        const Problem parsed = Problem::parse(view(problem));
        const Epilogue chain = Epilogue::parse(view(epilogue));
        const cuda::Device device = model(gpu, multiprocessors);
        cuda::Plan(parsed, chain, device).compile();
        if (chain.empty() || !takes_gradients()) return;
        for (const bool with_bias : {false, true}) cuda::EpilogueBwd(parsed, chain, device, with_bias).compile();
    });
}

std::string cuda_candidates(Text problem, Text epilogue, int64_t device) {
    return translating_errors([&] {
        std::vector<std::string> list;
        for (const cuda::Candidate& candidate :
             cuda::candidates(Problem::parse(view(problem)), Epilogue::parse(view(epilogue)), static_cast<int>(device)))
            list.push_back(object({member("implementation", quote(candidate.implementation)),
                                   member("variant", quote(candidate.variant))}));
        return array(list);
    });
}

void cuda_remember(Text problem, int64_t device, Text implementation, Text variant) {
    translating_errors([&] {
        cuda::remember(Problem::parse(view(problem)), static_cast<int>(device),
                       {std::string(view(implementation)), std::string(view(variant))});
        forget_cuda_plans(); // some were made without knowing this
    });
}

void set_nvrtc_folders(const c10::List<std::string>& folders) {
    cuda::set_nvrtc_folders({folders.begin(), folders.end()});
}

} // namespace

TORCH_LIBRARY_IMPL(tconv3d, CompositeExplicitAutograd, m) {
    m.impl("cuda_explain", cuda_explain);
    m.impl("cuda_candidates", cuda_candidates);
    m.impl("cuda_remember", cuda_remember);
    m.impl("cuda_model", cuda_model);
    m.impl("cuda_model_compile", cuda_model_compile);
    m.impl("cuda_model_explain", cuda_model_explain);
    m.impl("cuda_machine", cuda_machine);
    m.impl("set_nvrtc_folders", set_nvrtc_folders);
}

} // namespace tconv3d::ops
