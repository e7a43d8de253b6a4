#include "tconv3d/plan.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

#include "argument_checks.hpp"
#include "implementation.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d {

namespace {

constexpr size_t kWorkspaceAlignment = 64;

/// Waking other threads costs some ten microseconds: less work than this is done sooner on the calling thread.
bool is_small(const Problem& problem) {
    constexpr double kFlops = 2e6, kBytes = 2e5;
    return problem.flops() < kFlops && problem.bytes() < kBytes;
}

/// The implementation that TCONV3D_IMPL names; empty when none is forced.
std::string forced_implementation() {
    const char* forced = std::getenv("TCONV3D_IMPL");
    if (forced == nullptr || *forced == '\0') return {};
    std::string known;
    for (const Implementation& implementation : implementation_list()) {
        if (std::string_view(forced) == implementation.name) return forced;
        known += std::string(known.empty() ? "" : ", ") + implementation.name;
    }
    throw Error(std::string("TCONV3D_IMPL=") + forced + " names no implementation; there are: " + known);
}

struct AlignedDelete {
    void operator()(void* memory) const { ::operator delete(memory, std::align_val_t(kWorkspaceAlignment)); }
};

} // namespace

Plan::Plan(const Problem& problem, const Epilogue& epilogue) : problem_(problem), epilogue_(epilogue) {
    require_plannable(problem_, epilogue_);
    const std::string forced = forced_implementation();
    for (const Implementation& implementation : implementation_list()) {
        if (!forced.empty() && forced != implementation.name) {
            rejections_.push_back({implementation.name, "TCONV3D_IMPL=" + forced});
            continue;
        }
        const Answer<Kernel> answer = implementation.answer(problem_, epilogue_);
        if (answer.accepts()) {
            implementation_ = implementation.name;
            kernel_ = answer.candidates.front().prepare();
            return;
        }
        if (!forced.empty())
            throw Error("TCONV3D_IMPL=" + forced + " cannot take " + problem_.str() + ": " + answer.reason);
        rejections_.push_back({implementation.name, answer.reason});
    }
    throw Error("no implementation takes " + problem_.str());
}

void Plan::execute(const Arguments& arguments, Executor& executor, void* workspace) const {
    require_arguments(problem_, epilogue_, arguments);
    if (arguments.weight_channels_last) refuse_channels_last_weight("the CPU");
    const size_t bytes = workspace_bytes(executor.workers());
    if (bytes > 0 && workspace == nullptr)
        throw Error("implementation " + implementation_ + " needs a workspace of " + std::to_string(bytes) +
                    " bytes, got a null pointer");
    if (bytes > 0) require_aligned(workspace, kWorkspaceAlignment, "the workspace");
    SerialExecutor serial;
    kernel_->execute(arguments, is_small(problem_) ? serial : executor, workspace);
}

void Plan::execute(const Arguments& arguments, Executor& executor) const {
    const size_t bytes = workspace_bytes(executor.workers());
    const std::unique_ptr<void, AlignedDelete> workspace(
        bytes > 0 ? ::operator new(bytes, std::align_val_t(kWorkspaceAlignment)) : nullptr);
    execute(arguments, executor, workspace.get());
}

} // namespace tconv3d
