#pragma once

#include <memory>
#include <string>

#include "cuda/runtime/compile.hpp"
#include "cuda/select/family.hpp"
#include "cuda/source/output_source.hpp"

/// The gather that takes every problem (kernels/direct.cuh). No table, no workspace.
namespace tconv3d::cuda {

Answer answer_direct(const Question& question);

/// kernels/direct.cuh's DirectArgs, byte for byte.
struct DirectArgs {
    const void* in;
    const void* weight;
    Extents src_extents;
    Extents dst_extents;
    int64_t items;
};

/// All but the tensors.
DirectArgs direct_arguments(const Problem& problem);

KernelRequest direct_request(const Problem& problem, const Epilogue& epilogue, const ResultForm& form);

} // namespace tconv3d::cuda
