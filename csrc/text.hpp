#pragma once

#include <ATen/core/Tensor.h>

#include <string>

/// Messages made of parts, as TORCH_CHECK would print them. Without streams: those ask the locale how to print, and a
/// library that carries its own copy of libstdc++ may not share PyTorch's locale.
namespace tconv3d::ops {

inline std::string part(const std::string& text) {
    return text;
}
inline std::string part(const char* text) {
    return text;
}
inline std::string part(int64_t value) {
    return std::to_string(value);
}
inline std::string part(int value) {
    return std::to_string(value);
}
inline std::string part(size_t value) {
    return std::to_string(value);
}
inline std::string part(at::ScalarType type) {
    return c10::toString(type);
}
inline std::string part(const at::Device& device) {
    return device.str();
}
inline std::string part(at::IntArrayRef sizes) {
    std::string text = "[";
    for (size_t i = 0; i < sizes.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
    return text + "]";
}
/// A size that tracing does not know has no number.
inline std::string part(const c10::SymInt& size) {
    const auto known = size.maybe_as_int();
    return known.has_value() ? std::to_string(*known) : "a symbolic number";
}

template <typename... Parts>
std::string text(const Parts&... parts) {
    std::string joined;
    ((joined += part(parts)), ...);
    return joined;
}

} // namespace tconv3d::ops
