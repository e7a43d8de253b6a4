#include "cuda_plans.hpp"

#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "convert.hpp"

namespace tconv3d::ops {

namespace {

/// Inputs of ever new sizes must not fill the memory. A training or serving process has far fewer.
constexpr size_t kMostPlans = 4096;

void append(std::string& bytes, int64_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& bytes, const Extents& extents) {
    for (const int64_t extent : extents) append(bytes, extent);
}

/// Everything that a plan depends on. A problem's text would do, but costs microseconds in each call.
std::string key(const Problem& problem, Text epilogue, int device) {
    std::string bytes;
    bytes.reserve(256);
    for (const int64_t value : {problem.batch, problem.src_channels, problem.dst_channels, problem.groups})
        append(bytes, value);
    for (const Extents& extents :
         {problem.src, problem.kernel, problem.stride, problem.padding, problem.output_padding, problem.dilation})
        append(bytes, extents);
    append(bytes, static_cast<int64_t>(problem.dtype));
    append(bytes, static_cast<int64_t>(problem.math));
    append(bytes, static_cast<int64_t>(problem.layout));
    append(bytes, static_cast<int64_t>(problem.direction));
    append(bytes, device);
    bytes.append(epilogue.data(), epilogue.size());
    for (const char* variable : {"TCONV3D_CUDA_IMPL", "TCONV3D_CUDA_VARIANT"}) {
        const char* forced = std::getenv(variable);
        if (forced != nullptr) bytes.append(1, '\0').append(forced);
    }
    return bytes;
}

class Plans {
public:
    std::shared_ptr<const CudaPlan> find(const std::string& key) {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        const auto found = plans_.find(key);
        return found == plans_.end() ? nullptr : found->second;
    }

    void insert(const std::string& key, std::shared_ptr<const CudaPlan> plan) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        if (plans_.size() >= kMostPlans) plans_.clear();
        plans_.emplace(key, std::move(plan));
    }

    void clear() {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        plans_.clear();
    }

private:
    std::shared_mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<const CudaPlan>> plans_;
};

Plans& plans() {
    // Never destroyed: threads may still call while the process ends.
    static Plans& all = *new Plans;
    return all;
}

} // namespace

void forget_cuda_plans() {
    plans().clear();
}

std::shared_ptr<const CudaPlan> cuda_plan(const Problem& problem, Text epilogue, int device) {
    const std::string wanted = key(problem, epilogue, device);
    if (std::shared_ptr<const CudaPlan> known = plans().find(wanted)) return known;
    const Epilogue chain = parsed_epilogue(epilogue);
    auto made = std::make_shared<const CudaPlan>(CudaPlan{chain, cuda::Plan(problem, chain, device)});
    plans().insert(wanted, made);
    return made;
}

std::string left_to_pytorch(const Problem& problem) {
    const char* forced = std::getenv("TCONV3D_CUDA_IMPL");
    if (problem.direction == Direction::fwd || (forced != nullptr && *forced != '\0')) return "";
    return std::string("tconv3d's only kernel for ") + name(problem.direction) +
           ", direct, uses no tensor cores; TCONV3D_CUDA_IMPL=direct has it run";
}

} // namespace tconv3d::ops
