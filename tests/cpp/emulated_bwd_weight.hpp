#pragma once

#include <string>

#include "cuda/reduction/tile.hpp"
#include "cuda/runtime/compile.hpp"
#include "emulated.hpp"

/// Kernels of bwd_weight on the host, many problems in one program: each has a namespace of its own.
namespace tconv3d::testing {

inline std::string list(const Extents& values) {
    return "{" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " + std::to_string(values[2]) +
           "}, ";
}

/// check::Given of tests/emulator/definition.hpp. Steps that are never taken may be too large for it.
inline std::string given_source(const Problem& problem) {
    std::string text = "constexpr check::Given kGiven = {";
    for (const int64_t value : {problem.batch, problem.groups, problem.src_channels_per_group(),
                                problem.dst_channels_per_group(), int64_t{problem.channels_last()}})
        text += std::to_string(value) + ", ";
    for (const Extents& values : {problem.src, problem.dst(), problem.kernel, cuda::reduction_stride(problem),
                                  problem.padding, cuda::reduction_dilation(problem)})
        text += list(values);
    return text + "};\n";
}

/// A kernel in a namespace of its own. Its entry, which has none, gets the case's number.
inline std::string kernel_source(const char* space, const cuda::KernelRequest& request, const char* macro,
                                 const std::string& number) {
    const std::string entry = request.entry + "_" + number;
    return std::string("namespace ") + space + " {\n" + request.prelude + "unsigned char shared[1];\n#define " +
           request.entry + " " + entry + "\n#include \"" + request.file + "\"\n#undef " + request.entry +
           "\n}\n#undef " + macro + "\n#define " + macro + " " + space + "::" + entry + "\n";
}

} // namespace tconv3d::testing
