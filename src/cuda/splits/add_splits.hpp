#pragma once

#include "cuda/kernels/shared/split_sums.cuh"
#include "cuda/runtime/compile.hpp"
#include "cuda/source/specializations.hpp"

/// The second pass of bwd_weight, in every family that splits its sums (kernels/add_splits.cuh).
namespace tconv3d::cuda {

/// The kernel depends on the data type alone.
KernelRequest add_splits_request(const Problem& problem);

class AddSplits {
public:
    /// `sums` tells everything of the sums but where they are and where they go.
    AddSplits(const Problem& problem, const Device& device, const AddSplitsArguments& sums);

    /// Its kernel, to be compiled and loaded along with those that leave the sums.
    const LoadedFunction& function() const { return function_; }
    /// Adds up the gradient of the bias where it is among the arguments.
    void launch(const void* weight_sums, const void* bias_sums, const Arguments& arguments, void* stream) const;

private:
    AddSplitsArguments sums_;
    int64_t multiprocessors_;
    LoadedFunction function_;
};

} // namespace tconv3d::cuda
