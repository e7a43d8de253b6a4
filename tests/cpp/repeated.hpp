#pragma once

#include <string>

namespace tconv3d::testing {

/// The text of an epilogue that has this part so many times.
inline std::string repeated(const std::string& part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part + " ";
    return text;
}

} // namespace tconv3d::testing
