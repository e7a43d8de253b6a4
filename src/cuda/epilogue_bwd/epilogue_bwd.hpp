#pragma once

#include <cstddef>
#include <vector>

#include "cuda/kernels/shared/epilogue_bwd.cuh"
#include "cuda/source/specializations.hpp"
#include "tconv3d/cuda_device.hpp"
#include "tconv3d/epilogue_bwd.hpp"

/// An epilogue's backward on a GPU, in one pass and for each tensor with a value per channel, the bias too, a small
/// second one (kernels/epilogue_bwd.cuh).
namespace tconv3d::cuda {

/// Prepared for one problem, of which dst alone counts. Immutable: several threads may execute it at once.
class EpilogueBwd {
public:
    EpilogueBwd(const Problem& problem, const Epilogue& epilogue, const Device& device, bool with_bias);

    size_t workspace_bytes() const;

    /// Device pointers, aligned to 16 bytes; grad_bias: dst_channels values, null where it was not asked for;
    /// workspace: workspace_bytes() of device memory. Returns when the work is queued on the stream. Throws
    /// KernelFailure when this machine cannot compile, load or launch the kernels.
    void execute(const EpilogueGradients& gradients, void* grad_bias, void* stream, void* workspace) const;

    /// Puts its kernels into the disk cache, unless they are there. Needs no GPU.
    void compile() const;

private:
    int64_t sums() const;
    /// The gradient whose partial sums are the `sum`-th.
    void add_partials(const Function& function, int64_t sum, void* gradient, const double* partials,
                      void* stream) const;

    Problem problem_;
    Epilogue epilogue_;
    bool with_bias_;
    EpilogueBwdArguments args_;
    LoadedFunction packs_;
    LoadedFunction sums_;
};

/// All but the partial sums.
EpilogueBwdArguments epilogue_bwd_arguments(const Problem& problem, const Epilogue& epilogue, bool with_bias);
/// The kernel argument EpilogueBwdTensors, with room for the epilogue's operands.
std::vector<const void*> epilogue_bwd_tensors(const Epilogue& epilogue, const EpilogueGradients& gradients);

KernelRequest epilogue_bwd_request(const Problem& problem, const Epilogue& epilogue, bool with_bias);
KernelRequest epilogue_bwd_sums_request(const Problem& problem);

constexpr int64_t kEpilogueBwdThreads = 256;

} // namespace tconv3d::cuda
