#pragma once

#include <stdexcept>
#include <string>

namespace tconv3d {

/// Bad input: a problem, an epilogue or an argument that cannot be carried out. The message names the values.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// A GPU kernel that cannot be compiled, loaded or launched on this machine. The problem is not at fault, and another
/// kernel may be able to carry it out.
class KernelFailure : public Error {
public:
    using Error::Error;
};

} // namespace tconv3d
