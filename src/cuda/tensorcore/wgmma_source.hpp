#pragma once

#include <string>

#include "cuda/tensorcore/config.hpp"

/// The wgmmas of a tile as source: their text names every register of the sums.
namespace tconv3d::cuda {

/// The type of the tensor cores' operands.
const char* stream_operand_type(const Problem& problem);

/// wgmmas<Group>(sums, cores, weights): the products of one m64 tile with a group of taps, by descriptors. Nothing
/// calls it where the other engine multiplies. Where sums are gathered, wgmmas<Group>(acc, cores, weights) are those of
/// all tiles, and add to registers that name_sums(acc) declares, clear_sums(acc) clears and read_sums(acc) hands over.
std::string stream_wgmmas(const Problem& problem, const StreamTables& tables, const StreamTile& tile);

} // namespace tconv3d::cuda
