#pragma once

#include <cstddef>
#include <vector>

#include "cuda/kernels/shared/epilogue_bwd.cuh"
#include "cuda/source/specializations.hpp"
#include "tconv3d/cuda_device.hpp"
#include "tconv3d/epilogue_bwd.hpp"

/// An epilogue's backward on a GPU, in one pass and for each tensor with a value per channel a small second one
/// (kernels/epilogue_bwd.cuh).
namespace tconv3d::cuda {

/// Prepared for one problem, of which dst alone counts. Immutable: several threads may execute it at once.
class EpilogueBwd {
public:
    EpilogueBwd(const Problem& problem, const Epilogue& epilogue, const Device& device);

    size_t workspace_bytes() const;

    /// Device pointers, aligned to 16 bytes; workspace: workspace_bytes() of device memory. Returns when the work is
    /// queued on the stream. Throws KernelFailure when this machine cannot compile, load or launch the kernels.
    void execute(const EpilogueGradients& gradients, void* stream, void* workspace) const;

    /// Puts its kernels into the disk cache, unless they are there. Needs no GPU.
    void compile() const;

private:
    void add_partials(const Function& function, const EpilogueGradients& gradients, const double* partials,
                      void* stream) const;

    Problem problem_;
    Epilogue epilogue_;
    EpilogueBwdArguments args_;
    LoadedFunction packs_;
    LoadedFunction sums_;
};

/// All but the partial sums.
EpilogueBwdArguments epilogue_bwd_arguments(const Problem& problem, const Epilogue& epilogue);
/// The kernel argument EpilogueBwdTensors, with room for the epilogue's operands.
std::vector<const void*> epilogue_bwd_tensors(const Epilogue& epilogue, const EpilogueGradients& gradients);

KernelRequest epilogue_bwd_request(const Problem& problem, const Epilogue& epilogue);
KernelRequest epilogue_bwd_sums_request(const Problem& problem);

constexpr int64_t kEpilogueBwdThreads = 256;

} // namespace tconv3d::cuda
