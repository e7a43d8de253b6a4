#include "plan_key.hpp"

#include <cstdlib>

namespace tconv3d::ops {

namespace {

void append(std::string& bytes, int64_t value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& bytes, const Extents& extents) {
    for (const int64_t extent : extents) append(bytes, extent);
}

} // namespace

std::string plan_key(const Problem& problem, Text epilogue, std::initializer_list<const char*> variables) {
    std::string bytes;
    bytes.reserve(256);
    for (const int64_t value : {problem.batch, problem.src_channels, problem.dst_channels, problem.groups})
        append(bytes, value);
    for (const Extents& extents :
         {problem.src, problem.kernel, problem.stride, problem.padding, problem.output_padding, problem.dilation})
        append(bytes, extents);
    append(bytes, static_cast<int64_t>(problem.dtype));
    append(bytes, static_cast<int64_t>(problem.math));
    append(bytes, static_cast<int64_t>(problem.layout));
    append(bytes, static_cast<int64_t>(problem.direction));
    bytes.append(epilogue.data(), epilogue.size());
    for (const char* variable : variables) bytes.append(1, '\0').append(setting(variable));
    return bytes;
}

std::string setting(const char* variable) {
    const char* value = std::getenv(variable);
    return value == nullptr ? "" : value;
}

} // namespace tconv3d::ops
