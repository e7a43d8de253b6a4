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

std::string compute_capability(const Device& device) {
    return std::to_string(device.sm / 10) + "." + std::to_string(device.sm % 10);
}

} // namespace

Plan::Plan(const Problem& problem, const Epilogue& epilogue, int device, const std::vector<Rejection>& failed)
    : problem_(problem), epilogue_(epilogue), device_(device) {
    require_plannable(problem_, epilogue_);
    const Device& described = cuda::device(device);
    Choice choice = choose(problem_, epilogue_, described, failed);
    implementation_ = choice.family->name;
    rejections_ = std::move(choice.rejections);
    kernel_ = choice.candidate.prepare();
}

void Plan::execute(const Arguments& arguments, void* stream, void* workspace) const {
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

std::string Plan::explain() const {
    const Device& described = cuda::device(device_);
    return explain_problem(problem_, epilogue_) +
           explain_line("device", std::to_string(device_) + ": " + described.name + ", compute capability " +
                                      compute_capability(described)) +
           explain_line("implementation", implementation_ + ": " + kernel_->describe()) +
           explain_line("workspace", with_prefix(static_cast<double>(workspace_bytes()), "B")) +
           explain_rejections(rejections_);
}

} // namespace tconv3d::cuda
