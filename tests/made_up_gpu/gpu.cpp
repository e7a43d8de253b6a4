#include "gpu.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

using tconv3d::testing::MadeUpGpu;

constexpr int kMostDevices = 8;
constexpr int kInvalidContext = 201, kCaptureUnsupported = 900;
constexpr int kRelaxed = 2;

MadeUpGpu gpu;
std::mutex mutex;
int contexts[kMostDevices]; // a device's primary context is the address of its number

/// What a driver has as thread_local, which the leak checker takes amiss in a library that is opened at run time.
struct Thread {
    std::vector<void*> contexts; ///< the last one is current
    int capture_mode = 0;
};

Thread& this_thread() {
    static auto& all = *new std::map<std::thread::id, Thread>; // outlives all threads
    const std::lock_guard<std::mutex> lock(mutex);
    return all[std::this_thread::get_id()];
}

struct Program {
    std::string source;
};

/// A module is its own function, of the context that it was loaded in.
struct Module {
    std::string source;
    void* context;
};

void* current_context() {
    const Thread& thread = this_thread();
    return thread.contexts.empty() ? nullptr : thread.contexts.back();
}

std::vector<std::unique_ptr<Module>>& modules() {
    static auto& all = *new std::vector<std::unique_ptr<Module>>; // outlives all threads
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
    *count = gpu.devices;
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
int cuDevicePrimaryCtxRetain(void** context, int device) {
    *context = &contexts[device];
    return 0;
}
int cuCtxGetCurrent(void** context) {
    *context = current_context();
    return 0;
}
int cuCtxPushCurrent_v2(void* context) {
    this_thread().contexts.push_back(context);
    return 0;
}
int cuCtxPopCurrent_v2(void** context) {
    *context = current_context();
    if (*context == nullptr) return kInvalidContext;
    this_thread().contexts.pop_back();
    return 0;
}
int cuCtxSynchronize() {
    return current_context() == nullptr ? kInvalidContext : gpu.synchronize_result;
}
int cuModuleLoadData(void** module, const void* image) {
    void* const context = current_context();
    if (context == nullptr) return kInvalidContext;
    if (gpu.captures_elsewhere && this_thread().capture_mode != kRelaxed) return kCaptureUnsupported;
    const std::lock_guard<std::mutex> lock(mutex);
    const std::string source = static_cast<const char*>(image);
    if (is_refused(gpu.not_loaded, source)) return gpu.load_result;
    modules().push_back(std::make_unique<Module>(Module{source, context}));
    *module = modules().back().get();
    gpu.loaded.push_back(source);
    return 0;
}
int cuModuleUnload(void* module) {
    if (current_context() != static_cast<Module*>(module)->context) return kInvalidContext;
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
    if (current_context() != static_cast<Module*>(function)->context) return kInvalidContext;
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
    if (current_context() == nullptr) return kInvalidContext;
    *status = gpu.captures ? 1 : 0;
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
    std::swap(*mode, this_thread().capture_mode);
    return 0;
}
int cuMemsetD8Async(uint64_t, unsigned char, size_t, void*) {
    return 0;
}
int cuTensorMapEncodeTiled(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int) {
    return current_context() == nullptr ? kInvalidContext : 0;
}

// ---- NVRTC ----

int nvrtcVersion(int* major, int* minor) {
    *major = gpu.nvrtc_major;
    *minor = gpu.nvrtc_minor;
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
