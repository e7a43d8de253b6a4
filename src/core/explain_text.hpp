#pragma once

#include <string>
#include <vector>

#include "tconv3d/plan.hpp"

/// The pieces of explain() that the plans of all backends share.
namespace tconv3d {

/// `4.187 GB` for 4187000000 and "B".
std::string with_prefix(double value, const char* unit);

/// One line: the label, then the text in a column of its own.
std::string explain_line(const std::string& label, const std::string& text);

/// What is asked for: the problem, its size, its epilogue.
std::string explain_problem(const Problem& problem, const Epilogue& epilogue);

std::string explain_rejections(const std::vector<Rejection>& rejections);

} // namespace tconv3d
