#pragma once

#include "tconv3d/problem.hpp"

/// How long the forms of the CPU take, in nanoseconds of one core, by rough estimate: enough to tell apart what differs
/// by factors. Computed from the numbers of the problem alone, without a list of taps or phases. What both forms do
/// alike, as storing the outputs and packing the weight, is left out.
namespace tconv3d::cpu {

/// Flattened planes: everything between the taps takes part, zeros too.
double planes_work(const Problem& problem);

/// Columns: products that exist, and moving what belongs to them.
double columns_work(const Problem& problem);

} // namespace tconv3d::cpu
