#pragma once

#include <memory>

#include "core/answer.hpp"
#include "isa.hpp"
#include "tconv3d/plan.hpp"

/// The form whose work follows the products that exist: src slice by slice, as one matrix product for each tap along D,
/// whose rows are moved to, or taken from, the places in dst that they meet (docs/design.md).
namespace tconv3d::cpu {

/// The same problem, on the same data, with the dimensions that hold one voxel of src, dst and kernel in front of the
/// others: those that are left lie in rows and slices, whose lanes are multiplied at once.
Problem with_dimensions_last(const Problem& problem);

Answer<Kernel> answer_columns(const Problem& problem, const Epilogue& epilogue);

std::unique_ptr<Kernel> make_columns_fwd(const Problem& problem, const Epilogue& epilogue, Isa isa);
std::unique_ptr<Kernel> make_columns_bwd_data(const Problem& problem, Isa isa);
std::unique_ptr<Kernel> make_columns_bwd_weight(const Problem& problem, Isa isa);

} // namespace tconv3d::cpu
