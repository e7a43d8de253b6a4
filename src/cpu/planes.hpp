#pragma once

#include <string>

#include "core/answer.hpp"
#include "tconv3d/plan.hpp"

/// The CPU backend: every direction as dense correlations over flattened, zero-padded planes (docs/design.md).
namespace tconv3d::cpu {

Answer<Kernel> answer_planes(const Problem& problem, const Epilogue& epilogue);

/// The instruction sets as a JSON array of {"name", "available", "why"}.
std::string machine_json_isas();

} // namespace tconv3d::cpu
