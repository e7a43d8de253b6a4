#include "cuda/source/prelude.hpp"

#include <algorithm>
#include <cstdlib>

namespace tconv3d::cuda {
namespace {

/// 2147483647 stays out: sums with such a constant would overflow.
bool fits_int(int64_t value) {
    return std::abs(value) < int64_t{1} << 30;
}

const char* type_of(bool narrow) {
    return narrow ? "int" : "long long";
}

} // namespace

Prelude& Prelude::constant(const std::string& name, int64_t value) {
    text_ += std::string("constexpr ") + type_of(fits_int(value)) + " " + name + " = " + std::to_string(value) + ";\n";
    return *this;
}

Prelude& Prelude::flag(const std::string& name, bool value) {
    text_ += "constexpr bool " + name + " = " + (value ? "true" : "false") + ";\n";
    return *this;
}

Prelude& Prelude::extents(const std::string& name, const Extents& values) {
    return constant(name + "D", values[0]).constant(name + "H", values[1]).constant(name + "W", values[2]);
}

Prelude& Prelude::array(const std::string& name, const std::vector<int64_t>& values) {
    const bool narrow = std::all_of(values.begin(), values.end(), fits_int);
    text_ += std::string("__device__ constexpr ") + type_of(narrow) + " " + name + "[] = {";
    for (size_t i = 0; i < values.size(); ++i) text_ += (i > 0 ? ", " : "") + std::to_string(values[i]);
    text_ += std::string(values.empty() ? "0" : "") + "};\n";
    return *this;
}

Prelude& Prelude::add(const std::string& text) {
    text_ += text;
    return *this;
}

} // namespace tconv3d::cuda
