#pragma once

#include <memory>
#include <string>

#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/driver.hpp"
#include "tconv3d/cuda.hpp"

/// The gather that takes every problem (kernels/direct.cuh). No table, no workspace.
namespace tconv3d::cuda {

std::string reject_direct(const Problem& problem, const Epilogue& epilogue, const Device& device);
double direct_cost(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::unique_ptr<Kernel> prepare_direct(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                       const std::string& variant);

/// kernels/direct.cuh's DirectArgs, byte for byte.
struct DirectArgs {
    const void* src;
    const void* weight;
    Extents src_extents;
    Extents dst_extents;
    int64_t items;
};

/// All but the tensors.
DirectArgs direct_arguments(const Problem& problem);

KernelRequest direct_request(const Problem& problem, const Epilogue& epilogue, bool has_bias, bool saves_preactivation);

} // namespace tconv3d::cuda
