#include "cuda/runtime/shared_library.hpp"

#include <dlfcn.h>

#include "tconv3d/error.hpp"

namespace tconv3d::cuda {

SharedLibrary::SharedLibrary(const std::string& name)
    : name_(name), handle_(dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* reason = dlerror();
    throw Error(reason != nullptr ? reason : name + ": cannot be opened");
}

bool SharedLibrary::is_loaded(const std::string& name) {
    void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) dlclose(handle); // gives back this look's reference, not the library
    return handle != nullptr;
}

void* SharedLibrary::find(const char* symbol) const {
    return dlsym(handle_, symbol);
}

void* SharedLibrary::required(const char* symbol) const {
    void* address = find(symbol);
    if (address == nullptr) throw Error(name_ + " has no function " + symbol);
    return address;
}

std::string file_of(const void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

} // namespace tconv3d::cuda
