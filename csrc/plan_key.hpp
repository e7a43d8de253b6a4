#pragma once

#include <initializer_list>
#include <string>

#include "ops.hpp"

namespace tconv3d::ops {

/// What a plan depends on, as bytes: the problem, the epilogue, and the environment variables that have a say in the
/// choice. A problem's text would do, but costs microseconds in each call.
std::string plan_key(const Problem& problem, Text epilogue, std::initializer_list<const char*> variables);

/// The value of an environment variable; empty where it is not set.
std::string setting(const char* variable);

} // namespace tconv3d::ops
