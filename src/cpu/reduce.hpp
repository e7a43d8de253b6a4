#pragma once

#include <memory>

#include "isa.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d::cpu {

/// bwd_weight and the gradient of the bias.
std::unique_ptr<Kernel> make_reduce(const Problem& problem, Isa isa);

} // namespace tconv3d::cpu
