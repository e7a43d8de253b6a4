#pragma once

#include "cuda/runtime/compile.hpp"
#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/tensorcore/config.hpp"

/// What is compiled for a config.
namespace tconv3d::cuda::tensorcore {

/// What the kernel and the one that packs its weights are told.
Prelude kernel_constants(const Problem& problem, const TapTables& tables, const Config& config);

KernelRequest kernel_request(const Problem& problem, const TapTables& tables, const Config& config,
                             const Epilogue& epilogue, const ResultForm& form);

/// The kernel's argument, but for the tensors.
TensorCoreArguments kernel_arguments(const Problem& problem, const TapTables& tables, const Config& config);

} // namespace tconv3d::cuda::tensorcore
