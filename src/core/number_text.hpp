#pragma once

#include <charconv>
#include <string>

/// Numbers as text that no locale changes: a program may have set one in which a comma separates decimals.
namespace tconv3d {

/// With that many significant digits, as printf's %g.
inline std::string with_digits(double value, int digits) {
    char buffer[64];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits);
    return {buffer, result.ptr};
}

/// The shortest text that reads back as the same value.
inline std::string shortest(double value) {
    char buffer[32];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
    return {buffer, result.ptr};
}

/// A whole number in all its digits, of which a double may have more than 64 bits.
inline std::string whole(double value) {
    char buffer[512];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 0);
    return {buffer, result.ptr};
}

/// A literal of C++ in hexadecimal digits, which keep every bit of a finite value.
inline std::string hexadecimal_literal(double value) {
    char buffer[64];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::hex);
    const std::string digits(buffer, result.ptr);
    return digits[0] == '-' ? "-0x" + digits.substr(1) : "0x" + digits;
}

} // namespace tconv3d
