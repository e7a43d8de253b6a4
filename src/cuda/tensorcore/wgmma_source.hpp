#pragma once

#include <string>

#include "cuda/tensorcore/config.hpp"

/// The wgmmas of a config as source: their text names every register of the accumulators.
namespace tconv3d::cuda::tensorcore {

/// The type of the tensor cores' operands.
const char* operand_type(const Problem& problem);

/// wgmmas<Group>(accumulators, in, weights, adds): the products of one m64 tile with a tap group, by descriptors.
/// Nothing calls it where mma.sync multiplies. In the gathered form, wgmmas<Group>(acc, in, weights) are those of all
/// tiles, and add to registers that declare_accumulators(acc) declares, clear_accumulators(acc) clears and
/// read_accumulators(acc) hands over.
std::string wgmma_source(const Problem& problem, const TapTables& tables, const Config& config);

} // namespace tconv3d::cuda::tensorcore
