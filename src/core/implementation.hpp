#pragma once

#include <vector>

#include "answer.hpp"
#include "tconv3d/plan.hpp"

namespace tconv3d {

/// One entry of the ordered list that a Plan walks.
struct Implementation {
    const char* name;
    Answer<Kernel> (*answer)(const Problem& problem, const Epilogue& epilogue);
};

/// In the order of preference; the last entry accepts every valid problem.
const std::vector<Implementation>& implementation_list();

} // namespace tconv3d
