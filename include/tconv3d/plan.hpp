#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tconv3d/epilogue.hpp"
#include "tconv3d/executor.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d {

/// The data of one execution. Tensors are dense in the problem's layout and dtype; weight is always
/// (src_channels, dst_channels / groups, kD, kH, kW). A direction reads and writes:
///   fwd         src, weight, bias?, operands   -> dst, preactivation?
///   bwd_data    grad_dst, weight               -> grad_src
///   bwd_weight  src, grad_dst                  -> grad_weight, grad_bias?
/// A null pointer means absent for the ones marked `?`.
struct Arguments {
    const void* src = nullptr;
    const void* weight = nullptr;
    bool weight_channels_last = false; ///< it is (ci, kD, kH, kW, co / g); for plans that say they take it so
    const void* bias = nullptr;
    const void* grad_dst = nullptr;
    std::vector<const void*> operands; ///< tensors of the epilogue, in the order of its steps

    void* dst = nullptr;
    void* preactivation = nullptr; ///< accumulator + bias, before the epilogue
    void* grad_src = nullptr;
    void* grad_weight = nullptr;
    void* grad_bias = nullptr;
};

/// A prepared implementation for one problem.
class Kernel {
public:
    virtual ~Kernel() = default;
    virtual size_t workspace_bytes(int workers) const = 0;
    virtual void execute(const Arguments& arguments, Executor& executor, void* workspace) const = 0;
    /// Tile and sizes, for explain().
    virtual std::string describe() const = 0;
};

/// An implementation that was passed over, and why.
struct Rejection {
    std::string implementation;
    std::string reason;
};

/// What will run and why. Immutable: one plan may execute from several threads at once.
class Plan {
public:
    /// Takes the first implementation of the list that accepts the problem. TCONV3D_IMPL names one to force.
    explicit Plan(const Problem& problem, const Epilogue& epilogue = {});

    const Problem& problem() const { return problem_; }
    const Epilogue& epilogue() const { return epilogue_; }
    const std::string& implementation() const { return implementation_; }
    const std::vector<Rejection>& rejections() const { return rejections_; }

    size_t workspace_bytes(int workers) const { return kernel_->workspace_bytes(workers); }

    /// workspace: at least workspace_bytes(executor.workers()) bytes, aligned to 64.
    void execute(const Arguments& arguments, Executor& executor, void* workspace) const;

    /// The same, with a workspace of its own.
    void execute(const Arguments& arguments, Executor& executor) const;

    std::string explain() const;

private:
    Problem problem_;
    Epilogue epilogue_;
    std::string implementation_;
    std::vector<Rejection> rejections_;
    std::shared_ptr<const Kernel> kernel_;
};

/// The names of all implementations of this build, in the order they are tried.
std::vector<std::string> implementations();

} // namespace tconv3d
