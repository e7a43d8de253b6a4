#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tconv3d/cuda_device.hpp"
#include "tconv3d/plan.hpp"

/// The CUDA backend: kernels compiled at first use by NVRTC, launched through the driver. Neither is needed to build.
namespace tconv3d::cuda {

/// An implementation prepared for one problem on one device. Arguments hold device pointers.
class Kernel {
public:
    virtual ~Kernel() = default;
    virtual size_t workspace_bytes() const = 0;
    /// Compiles and loads what execute() will launch, unless it is there already.
    virtual void load(const Arguments& arguments, void* stream) const = 0;
    /// Compiles into the disk cache what load() would look for there, with bias and without; for calls that save the
    /// preactivation too, if there are such. Needs no GPU.
    virtual void compile(bool saves_preactivation) const = 0;
    /// What load() was called for.
    virtual void execute(const Arguments& arguments, void* stream, void* workspace) const = 0;
    virtual std::string describe() const = 0;
    /// Whether Arguments::weight_channels_last may be set.
    virtual bool takes_channels_last_weight() const { return false; }
};

/// What will run on a GPU and why. Immutable: one plan may execute from several threads at once.
class Plan {
public:
    /// Takes what was remembered for the problem, else the cheapest implementation that accepts it, by estimate.
    /// TCONV3D_CUDA_IMPL names one to force. An epilogue belongs to fwd. `failed` are implementations whose execute()
    /// has thrown KernelFailure for this problem, which are passed over. Throws KernelFailure when none is left.
    Plan(const Problem& problem, const Epilogue& epilogue, int device, const std::vector<Rejection>& failed = {});

    /// The same for a device that need not be there (device_model): all but execute() works without a GPU.
    Plan(const Problem& problem, const Epilogue& epilogue, const Device& device,
         const std::vector<Rejection>& failed = {});

    const Problem& problem() const { return problem_; }
    const std::string& implementation() const { return implementation_; }
    const std::vector<Rejection>& rejections() const { return rejections_; }
    size_t workspace_bytes() const { return kernel_->workspace_bytes(); }
    bool takes_channels_last_weight() const { return kernel_->takes_channels_last_weight(); }

    /// The tensors that the direction needs, and preactivation, are aligned to 16 bytes. workspace: workspace_bytes()
    /// of device memory, aligned to 256. Returns when the work is queued on the stream. Throws KernelFailure when this
    /// machine cannot compile, load or launch the kernel: another plan may do.
    void execute(const Arguments& arguments, void* stream, void* workspace) const;

    /// Compiles every kernel that execute() may load into the disk cache, unless it is there. The first call on such a
    /// device then finds them, if its NVRTC has the same version.
    void compile() const;

    std::string explain() const;

private:
    Problem problem_;
    Epilogue epilogue_;
    Device device_;
    std::string implementation_;
    std::vector<Rejection> rejections_;
    std::shared_ptr<const Kernel> kernel_;
};

/// The names of all implementations, in the order of the list.
std::vector<std::string> implementations();

/// A way to carry out a problem.
struct Candidate {
    std::string implementation;
    std::string variant; ///< empty where the implementation has only one
};

/// Those that may be the fastest, the best by estimate first. TCONV3D_CUDA_IMPL and TCONV3D_CUDA_VARIANT make a plan
/// take one, so that it can be measured.
std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, int device);

/// Has plans of the problem on such devices take this candidate from now on, in later processes too. Throws Error when
/// it cannot be written down.
void remember(const Problem& problem, int device, const Candidate& fastest);

} // namespace tconv3d::cuda
