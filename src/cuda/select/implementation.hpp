#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/runtime/driver.hpp"
#include "tconv3d/cuda.hpp"

namespace tconv3d::cuda {

/// One kernel family. Pure host code: nothing here needs a GPU or NVRTC until the kernel is loaded.
struct Implementation {
    const char* name;
    /// Why it cannot take the problem on this device, with the values; empty when it can.
    std::string (*reject)(const Problem& problem, const Epilogue& epilogue, const Device& device);
    /// Estimated microseconds; the list is walked for the least.
    double (*cost)(const Problem& problem, const Epilogue& epilogue, const Device& device);
    /// Names of those worth measuring, the best by estimate first; one without a name where there is nothing to choose.
    std::vector<std::string> (*variants)(const Problem& problem, const Epilogue& epilogue, const Device& device);
    /// `variant` is one of these; an empty name means the best by estimate.
    std::unique_ptr<Kernel> (*prepare)(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                       const std::string& variant);
};

/// The last entry accepts every valid fwd problem.
const std::vector<Implementation>& implementation_list();

/// The implementation that is taken, and why the others are not.
struct Choice {
    const Implementation* implementation;
    std::vector<Rejection> rejections;
    std::string variant = ""; ///< empty for the best by estimate
};

/// What tuning found, else the least cost among those that accept a valid problem, the earlier one where two are equal.
/// TCONV3D_CUDA_IMPL names one to force, and TCONV3D_CUDA_VARIANT a variant of it. Throws Error when none accepts.
Choice choose(const Problem& problem, const Epilogue& epilogue, const Device& device);

/// As the public one, for a device that need not be there.
std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, const Device& device);

} // namespace tconv3d::cuda
