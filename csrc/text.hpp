#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

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

/// Bytes of the UTF-8 character that the text begins with; 0 where there is none.
inline size_t character_bytes(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const size_t count = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < count; ++i)
        if ((byte(i) & 0xc0U) != 0x80) return 0;
    // Neither longer than need be, nor half of a pair of UTF-16, nor beyond Unicode.
    const bool wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
                       (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
    return wrong ? 0 : count;
}

/// The text with `\xff` in the place of bytes that are not UTF-8, as names of files may have: Python's strings hold
/// none.
inline std::string printable(std::string_view text) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string result;
    while (!text.empty()) {
        const size_t count = character_bytes(text);
        const auto byte = static_cast<unsigned char>(text.front());
        result += count > 0 ? std::string(text.substr(0, count))
                            : std::string("\\x") + kDigits[byte / 16] + kDigits[byte % 16];
        text.remove_prefix(count > 0 ? count : 1);
    }
    return result;
}

template <typename... Parts>
std::string text(const Parts&... parts) {
    std::string joined;
    ((joined += part(parts)), ...);
    return joined;
}

} // namespace tconv3d::ops
