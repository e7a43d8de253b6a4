#include "cuda_plans.hpp"

#include <mutex>
#include <set>

#include <c10/util/Exception.h>

#include "convert.hpp"
#include "core/lasting.hpp"
#include "cuda/runtime/jit.hpp"
#include "kept.hpp"
#include "plan_key.hpp"
#include "text.hpp"

namespace tconv3d::ops {

namespace {

Kept<CudaPlan>& plans() {
    static Lasting<Kept<CudaPlan>> all(4096U);
    return *all;
}

bool is_forced() {
    return !setting("TCONV3D_CUDA_IMPL").empty();
}

std::string name_of(const CudaPlan& plan) {
    return plan.plan ? "implementation " + plan.plan->implementation() : "PyTorch's operator";
}

CudaPlan make_plan(const Problem& problem, const Epilogue& epilogue, int device, std::vector<Rejection> failed) {
    try {
        const std::string reason = is_forced() ? "" : cuda::reject_device(cuda::device(device));
        if (!reason.empty()) return {epilogue, std::nullopt, reason, std::move(failed)};
        cuda::Plan plan(problem, epilogue, device, failed);
        return {epilogue, std::move(plan), "", std::move(failed)};
    } catch (const KernelFailure& failure) {
        return {epilogue, std::nullopt, failure.what(), std::move(failed)};
    }
}

} // namespace

std::string cuda_plan_key(const Problem& problem, Text epilogue, int device) {
    return plan_key(problem, epilogue, {"TCONV3D_CUDA_IMPL", "TCONV3D_CUDA_VARIANT", "TCONV3D_CUDA_SIZES"}) + '\0' +
           std::to_string(device);
}

void warn_once(const std::string& way, const std::string& message) {
    static std::mutex mutex;
    static Lasting<std::set<std::string>> told;
    const std::lock_guard<std::mutex> lock(mutex);
    if (told->insert(way).second) {
        TORCH_WARN(message);
    }
}

void forget_cuda_plans() {
    plans().clear();
}

std::shared_ptr<const CudaPlan> cuda_plan(const Problem& problem, Text epilogue, int device) {
    const std::string wanted = cuda_plan_key(problem, epilogue, device);
    if (std::shared_ptr<const CudaPlan> known = plans().find(wanted)) return known;
    auto made = std::make_shared<const CudaPlan>(make_plan(problem, parsed_epilogue(epilogue), device, {}));
    if (!made->plan)
        warn_once("no plan", text("tconv3d leaves ", problem.str(), " to PyTorch's operator: ", made->reason));
    plans().insert(wanted, made);
    return made;
}

std::shared_ptr<const CudaPlan> next_cuda_plan(const Problem& problem, Text epilogue, int device,
                                               const CudaPlan& before, const KernelFailure& failure) {
    if (is_forced()) throw failure;
    std::vector<Rejection> failed = before.failed;
    if (before.plan) failed.push_back({before.plan->implementation(), failure.what()});
    auto made = std::make_shared<const CudaPlan>(make_plan(problem, before.epilogue, device, std::move(failed)));
    warn_once(name_of(before) + name_of(*made), text("tconv3d's ", name_of(before), " has failed for ", problem.str(),
                                                     ", so ", name_of(*made), " computes: ", failure.what()));
    plans().insert(cuda_plan_key(problem, epilogue, device), made);
    return made;
}

bool takes_gradients() {
    const std::string chosen = setting("TCONV3D_CUDA_GRADIENTS");
    if (!chosen.empty() && chosen != "0" && chosen != "1")
        throw Error("TCONV3D_CUDA_GRADIENTS=" + chosen + " is neither 0 nor 1");
    return chosen != "0";
}

std::string left_to_pytorch(const Problem& problem) {
    if (problem.direction == Direction::fwd || is_forced()) return "";
    if (!takes_gradients()) return "TCONV3D_CUDA_GRADIENTS=0";
    // Those of tconv3d are ordinary arithmetic, which was not measured against cuDNN's.
    if (problem.dtype == DType::f64 && setting("TCONV3D_CUDA_GRADIENTS").empty())
        return std::string(name(problem.direction)) + " in f64 is PyTorch's unless TCONV3D_CUDA_GRADIENTS=1 is set";
    return "";
}

} // namespace tconv3d::ops
