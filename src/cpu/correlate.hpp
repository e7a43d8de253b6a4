#pragma once

#include <memory>

#include "isa.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d::cpu {

/// fwd and bwd_data.
std::unique_ptr<Kernel> make_correlate(const Problem& problem, const Epilogue& epilogue, Isa isa);

} // namespace tconv3d::cpu
