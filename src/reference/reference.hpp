#pragma once

#include <memory>

#include "core/answer.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d {

/// Nested loops over the definition, summed in double: what every other implementation is compared with.
/// It knows nothing of phases, and accepts every valid problem.
std::unique_ptr<Kernel> prepare_reference(const Problem& problem, const Epilogue& epilogue);
Answer<Kernel> answer_reference(const Problem& problem, const Epilogue& epilogue);

} // namespace tconv3d
