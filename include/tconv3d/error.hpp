#pragma once

#include <stdexcept>
#include <string>

namespace tconv3d {

/// Bad input: a problem, an epilogue or an argument that cannot be carried out. The message names the values.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string& message) : std::runtime_error(message) {}
};

} // namespace tconv3d
