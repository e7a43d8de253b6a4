#pragma once

#include <string>
#include <string_view>

#include "tconv3d/epilogue.hpp"

namespace tconv3d {

/// How a step is written: its name and constants.
struct StepSpec {
    StepKind kind;
    const char* name;
    int constants;
    int required; ///< how many of the constants have no default
    const char* constant_names[2];
    double defaults[2];
};

const StepSpec& step_spec(StepKind kind);
/// Null when no step has that name.
const StepSpec* find_step_spec(std::string_view name);

std::string str(const Step& step);

} // namespace tconv3d
