#pragma once

#include <string>

#include "cuda/tensorcore/config.hpp"

/// The wgmmas of a config as source: their text names every register of the accumulators.
namespace tconv3d::cuda::tensorcore {

/// The type of the tensor cores' operands.
const char* operand_type(const Problem& problem);

/// The accumulators `sums` of a wgmma: where its text names them, and the operands that they are.
struct SumsText {
    std::string places, operands;
};
SumsText sums_text(int64_t count);

/// wgmmas<Group>(accumulators, in, weights, adds): the products of one m64 tile with a tap group, by descriptors.
/// Nothing calls it where mma.sync multiplies. In the gathered form, wgmmas<Group>(acc, in, weights) are those of all
/// tiles, and add to registers that declare_accumulators(acc) declares, clear_accumulators(acc) clears and
/// read_accumulators(acc) hands over.
std::string wgmma_source(const Problem& problem, const TapTables& tables, const Config& config);

} // namespace tconv3d::cuda::tensorcore
