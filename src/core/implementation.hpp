#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tconv3d/plan.hpp"

namespace tconv3d {

/// One entry of the ordered list that a Plan walks.
struct Implementation {
    const char* name;
    /// Why it cannot take the problem, with the values; empty when it can.
    std::string (*reject)(const Problem& problem, const Epilogue& epilogue);
    std::unique_ptr<Kernel> (*prepare)(const Problem& problem, const Epilogue& epilogue);
};

/// In the order of preference; the last entry accepts every valid problem.
const std::vector<Implementation>& implementation_list();

} // namespace tconv3d
