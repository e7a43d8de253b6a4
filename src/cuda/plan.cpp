#include <cstdint>

#include "core/argument_checks.hpp"
#include "core/explain_text.hpp"
#include "cuda/select/family.hpp"
#include "tconv3d/cuda.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

constexpr size_t kWorkspaceAlignment = 256;
constexpr size_t kTensorAlignment = 16; // kernels read and write that much at once

/// The kernels count on it; a batch of 0 may come with any pointer.
void require_aligned_tensors(const Problem& problem, const Arguments& arguments) {
    for (const RequiredTensor& tensor : required_tensors(problem.direction, arguments))
        if (problem.batch > 0 || !tensor.batched) require_aligned(tensor.data, kTensorAlignment, tensor.name);
    if (problem.direction == Direction::fwd)
        require_aligned(arguments.preactivation, kTensorAlignment, "preactivation");
}

/// A gradient of weight sums over nothing then, and must be written.
bool has_no_results(const Problem& problem) {
    return problem.batch == 0 && problem.direction != Direction::bwd_weight;
}

std::string describe(const Device& device) {
    const std::string capability = std::to_string(device.sm / 10) + "." + std::to_string(device.sm % 10);
    return (device.is_model() ? "model" : std::to_string(device.ordinal)) + ": " + device.name +
           ", compute capability " + capability + ", " + std::to_string(device.multiprocessors) + " multiprocessors";
}

/// Bad input is told on a machine without a GPU too.
const Device& device_for(const Problem& problem, const Epilogue& epilogue, int device) {
    require_plannable(problem, epilogue);
    return cuda::device(device);
}

} // namespace

Plan::Plan(const Problem& problem, const Epilogue& epilogue, int device, const std::vector<Rejection>& failed)
    : Plan(problem, epilogue, device_for(problem, epilogue, device), failed) {}

Plan::Plan(const Problem& problem, const Epilogue& epilogue, const Device& device, const std::vector<Rejection>& failed)
    : problem_(problem), epilogue_(epilogue), device_(device) {
    require_plannable(problem_, epilogue_);
    Choice choice = choose(problem_, epilogue_, device_, failed);
    implementation_ = choice.family->name;
    rejections_ = std::move(choice.rejections);
    kernel_ = choice.candidate.prepare();
}

void Plan::execute(const Arguments& arguments, void* stream, void* workspace) const {
    if (device_.is_model())
        throw Error("this plan is for a model, " + device_.name + ": only plans for a device of this machine execute");
    require_arguments(problem_, epilogue_, arguments);
    if (arguments.weight_channels_last && !takes_channels_last_weight())
        refuse_channels_last_weight("implementation " + implementation_);
    if (has_no_results(problem_)) return;
    require_aligned_tensors(problem_, arguments);
    const size_t bytes = workspace_bytes();
    if (bytes > 0 && workspace == nullptr)
        throw Error("implementation " + implementation_ + " needs a workspace of " + std::to_string(bytes) +
                    " bytes, got a null pointer");
    if (bytes > 0) require_aligned(workspace, kWorkspaceAlignment, "the workspace");
    kernel_->load(arguments, stream);
    kernel_->execute(arguments, stream, workspace);
}

void Plan::compile() const {
    kernel_->compile(epilogue_.saved() == Saved::preactivation);
}

std::string Plan::explain() const {
    return explain_problem(problem_, epilogue_) + explain_line("device", describe(device_)) +
           explain_line("implementation", implementation_ + ": " + kernel_->describe()) +
           explain_line("workspace", with_prefix(static_cast<double>(workspace_bytes()), "B")) +
           explain_rejections(rejections_);
}

} // namespace tconv3d::cuda
