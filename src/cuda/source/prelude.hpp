#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tconv3d/problem.hpp"

namespace tconv3d::cuda {

/// Compile-time constants as C++ text: the head of a kernel's source. Plain strings, because streams ask the locale how
/// to print numbers, and because a library that carries its own copy of libstdc++ may not share its locale.
class Prelude {
public:
    /// `constexpr int`, or a 64-bit one for a value that needs it.
    Prelude& constant(const std::string& name, int64_t value);
    Prelude& flag(const std::string& name, bool value);
    /// One constant for each dimension: kKernelD, kKernelH, kKernelW.
    Prelude& extents(const std::string& name, const Extents& values);
    /// Device code may index it at run time too. An empty one holds a 0, as C++ has no arrays of nothing.
    Prelude& array(const std::string& name, const std::vector<int64_t>& values);
    /// Any text, whole lines.
    Prelude& add(const std::string& text);

    const std::string& str() const { return text_; }

private:
    std::string text_;
};

} // namespace tconv3d::cuda
