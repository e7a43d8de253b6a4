#pragma once

#include <memory>
#include <string>

#include "tconv3d/plan.hpp"

namespace tconv3d {

/// Nested loops over the definition, summed in double: what every other implementation is compared with.
/// It knows nothing of phases, and accepts every valid problem.
std::string reject_reference(const Problem& problem, const Epilogue& epilogue);
std::unique_ptr<Kernel> prepare_reference(const Problem& problem, const Epilogue& epilogue);

} // namespace tconv3d
