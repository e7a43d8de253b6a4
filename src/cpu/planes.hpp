#pragma once

#include <memory>
#include <string>

#include "tconv3d/plan.hpp"

/// The CPU backend: every direction as dense correlations over flattened, zero-padded planes (docs/design.md).
namespace tconv3d::cpu {

/// Why the backend cannot take the problem; empty when it can.
std::string reject_planes(const Problem& problem, const Epilogue& epilogue);

std::unique_ptr<Kernel> prepare_planes(const Problem& problem, const Epilogue& epilogue);

/// The instruction sets as a JSON array of {"name", "available", "why"}.
std::string machine_json_isas();

} // namespace tconv3d::cpu
