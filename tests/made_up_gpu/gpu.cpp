#include "gpu.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

namespace {

using tconv3d::testing::MadeUpGpu;

MadeUpGpu gpu;
std::mutex mutex;
int the_context;
void* current = nullptr;

struct Program {
    std::string source;
};

/// A module is its own function.
struct Module {
    std::string source;
};

std::vector<std::unique_ptr<Module>>& modules() {
    static std::vector<std::unique_ptr<Module>> all;
    return all;
}

bool is_refused(const std::string& text, const std::string& source) {
    return !text.empty() && source.find(text) != std::string::npos;
}

} // namespace

extern "C" {

MadeUpGpu* made_up_gpu() {
    return &gpu;
}

// ---- The driver ----

int cuInit(unsigned) {
    return 0;
}
int cuDriverGetVersion(int* version) {
    *version = gpu.driver_version;
    return 0;
}
int cuGetErrorName(int, const char** name) {
    *name = "MADE_UP";
    return 0;
}
int cuGetErrorString(int, const char** meaning) {
    *meaning = "as the test asked";
    return 0;
}
int cuDeviceGetCount(int* count) {
    *count = 1;
    return 0;
}
int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return 0;
}
int cuDeviceGetName(char* name, int bytes, int) {
    std::strncpy(name, "made up", static_cast<size_t>(bytes));
    return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
    case 75:
        *value = gpu.sm / 10;
        return 0;
    case 76:
        *value = gpu.sm % 10;
        return 0;
    case 16:
        *value = 132;
        return 0;
    default: // bytes of shared memory and caches
        *value = 232448;
        return 0;
    }
}
int cuDevicePrimaryCtxRetain(void** context, int) {
    *context = &the_context;
    return 0;
}
int cuCtxGetCurrent(void** context) {
    *context = current;
    return 0;
}
int cuCtxPushCurrent_v2(void* context) {
    current = context;
    return 0;
}
int cuCtxPopCurrent_v2(void** context) {
    *context = current;
    current = nullptr;
    return 0;
}
int cuCtxSynchronize() {
    return gpu.synchronize_result;
}
int cuModuleLoadData(void** module, const void* image) {
    const std::lock_guard<std::mutex> lock(mutex);
    const std::string source = static_cast<const char*>(image);
    if (is_refused(gpu.not_loaded, source)) return gpu.load_result;
    modules().push_back(std::make_unique<Module>(Module{source}));
    *module = modules().back().get();
    gpu.loaded.push_back(source);
    return 0;
}
int cuModuleUnload(void* module) {
    const std::lock_guard<std::mutex> lock(mutex);
    gpu.unloaded.push_back(static_cast<Module*>(module)->source);
    return 0;
}
int cuModuleGetFunction(void** function, void* module, const char*) {
    *function = module;
    return 0;
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
    *value = attribute == 0 ? 1024 : 0;
    return 0;
}
int cuFuncSetAttribute(void*, int, int) {
    return 0;
}
int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                   void**) {
    const std::lock_guard<std::mutex> lock(mutex);
    const std::string& source = static_cast<Module*>(function)->source;
    if (is_refused(gpu.not_launched, source)) return gpu.launch_result;
    gpu.launched.push_back(source);
    return 0;
}
int cuLaunchKernelEx(const void*, void* function, void** arguments, void** extra) {
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, extra);
}
int cuStreamIsCapturing(void*, int* status) {
    *status = gpu.captures ? 1 : 0;
    return 0;
}
int cuMemsetD8Async(uint64_t, unsigned char, size_t, void*) {
    return 0;
}
int cuTensorMapEncodeTiled(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int) {
    return 0;
}

// ---- NVRTC ----

int nvrtcVersion(int* major, int* minor) {
    *major = gpu.nvrtc_major;
    *minor = 0;
    return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
    *count = static_cast<int>(gpu.architectures.size());
    return 0;
}
int nvrtcGetSupportedArchs(int* architectures) {
    std::memcpy(architectures, gpu.architectures.data(), gpu.architectures.size() * sizeof(int));
    return 0;
}
const char* nvrtcGetErrorString(int) {
    return "as the test asked";
}
int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
    *program = new Program{source};
    return 0;
}
int nvrtcDestroyProgram(void** program) {
    delete static_cast<Program*>(*program);
    return 0;
}
int nvrtcCompileProgram(void* program, int, const char* const*) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++gpu.compilations;
    return is_refused(gpu.not_compiled, static_cast<Program*>(program)->source) ? gpu.compile_result : 0;
}
int nvrtcGetProgramLogSize(void*, size_t* bytes) {
    *bytes = 1;
    return 0;
}
int nvrtcGetProgramLog(void*, char* log) {
    *log = '\0';
    return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
    *bytes = static_cast<Program*>(program)->source.size() + 1;
    return 0;
}
int nvrtcGetCUBIN(void* program, char* cubin) {
    const std::string& source = static_cast<Program*>(program)->source;
    std::memcpy(cubin, source.c_str(), source.size() + 1);
    return 0;
}

} // extern "C"
