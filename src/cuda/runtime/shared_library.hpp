#pragma once

#include <string>

namespace tconv3d::cuda {

/// A shared library opened at run time. It is never closed: its code may be in use until the process ends.
class SharedLibrary {
public:
    /// A path, or a soname that the loader searches for. Throws Error with the loader's reason.
    explicit SharedLibrary(const std::string& name);

    /// Whether the process has this library loaded already.
    static bool is_loaded(const std::string& name);

    /// Sets `function` to the symbol. Throws Error when the library lacks it.
    template <typename Function>
    void resolve(const char* symbol, Function& function) const {
        function = reinterpret_cast<Function>(required(symbol));
    }

    /// The same, null when the library lacks it.
    template <typename Function>
    void resolve_if_present(const char* symbol, Function& function) const {
        function = reinterpret_cast<Function>(find(symbol));
    }

private:
    void* find(const char* symbol) const;
    void* required(const char* symbol) const;

    std::string name_;
    void* handle_;
};

/// The file that holds the code at `address`; empty when it is unknown.
std::string file_of(const void* address);

} // namespace tconv3d::cuda
