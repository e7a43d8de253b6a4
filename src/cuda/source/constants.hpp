#pragma once

#include <vector>

namespace tconv3d::cuda {

/// A constant that the host prints in front of a kernel's source.
struct ConstantMeaning {
    const char* name;
    const char* meaning;
};

/// All of them. Those with a D at the end stand for the same with H and W too.
const std::vector<ConstantMeaning>& constant_meanings();

} // namespace tconv3d::cuda
