#pragma once

#include <string>
#include <vector>

#include "core/answer.hpp"
#include "cuda/runtime/driver.hpp"
#include "tconv3d/cuda.hpp"

namespace tconv3d::cuda {

using Answer = tconv3d::Answer<Kernel>;
using KernelCandidate = tconv3d::Candidate<Kernel>;

/// What a family is asked. Answering is pure host code, which needs neither a GPU nor NVRTC until a kernel is loaded;
/// but where there is an NVRTC, its version may be a reason to refuse.
struct Question {
    const Problem& problem;
    const Epilogue& epilogue;
    const Device& device;
    size_t most_candidates = 1;
    bool any_size = false; ///< Whether kernels that serve tensors of any size come first. A single candidate is wanted.
};

/// One kernel family.
struct Family {
    const char* name;
    Answer (*answer)(const Question& question);
    /// Whether only TCONV3D_CUDA_IMPL makes it answer: a family that has not run on a GPU yet.
    bool only_forced = false;
};

/// The last one accepts every valid problem but the most extreme.
const std::vector<Family>& families();

/// Candidates of a family that are worth measuring.
constexpr size_t kMostCandidates = 8;

/// What is taken, and why all else is not.
struct Choice {
    const Family* family;
    KernelCandidate candidate;
    std::vector<Rejection> rejections;
};

/// What tuning found, else the least estimate among those that accept a valid problem, the earlier one where two are
/// equal. Families that have failed on this problem are passed over; after two of them only the last is asked, so that
/// nobody waits for many compilations in vain. TCONV3D_CUDA_IMPL names a family to force, and TCONV3D_CUDA_VARIANT a
/// candidate of it; with TCONV3D_CUDA_SIZES=any kernels that serve any size come first. Throws KernelFailure when none
/// is left.
Choice choose(const Problem& problem, const Epilogue& epilogue, const Device& device,
              const std::vector<Rejection>& failed = {});

/// As the public one, for a device that need not be there.
std::vector<Candidate> candidates(const Problem& problem, const Epilogue& epilogue, const Device& device);

} // namespace tconv3d::cuda
