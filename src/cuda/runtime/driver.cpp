#include "cuda/runtime/driver.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "core/lasting.hpp"
#include "cuda/runtime/shared_library.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

std::string failure_text(const Driver& api, Result result, const char* call) {
    const char* name = nullptr;
    const char* meaning = nullptr;
    api.cuGetErrorName(result, &name);
    api.cuGetErrorString(result, &meaning);
    return std::string(call) + " failed: " + (name != nullptr ? name : "unknown CUDA error") + " (" +
           std::to_string(result) + "): " + (meaning != nullptr ? meaning : "no description");
}

void check_with(const Driver& api, Result result, const char* call) {
    if (result != kSuccess) throw Error(failure_text(api, result, call));
}

/// CUresult of what a kernel's code or its extents can be refused for.
constexpr Result kKernelsFaults[] = {
    1,   // INVALID_VALUE
    200, // INVALID_IMAGE
    209, // NO_BINARY_FOR_GPU
    218, // INVALID_PTX
    221, // JIT_COMPILER_NOT_FOUND
    222, // UNSUPPORTED_PTX_VERSION
    300, // INVALID_SOURCE
    302, // SHARED_OBJECT_SYMBOL_NOT_FOUND
    303, // SHARED_OBJECT_INIT_FAILED
    500, // NOT_FOUND
    701, // LAUNCH_OUT_OF_RESOURCES
    801, // NOT_SUPPORTED
};

std::string driver_file() {
    const char* file = std::getenv("TCONV3D_CUDA_DRIVER");
    return file != nullptr && *file != '\0' ? file : "libcuda.so.1";
}

Driver resolve(const SharedLibrary& library) {
    Driver api{};
    library.resolve("cuInit", api.cuInit);
    library.resolve("cuDriverGetVersion", api.cuDriverGetVersion);
    library.resolve("cuGetErrorName", api.cuGetErrorName);
    library.resolve("cuGetErrorString", api.cuGetErrorString);
    library.resolve("cuDeviceGetCount", api.cuDeviceGetCount);
    library.resolve("cuDeviceGet", api.cuDeviceGet);
    library.resolve("cuDeviceGetName", api.cuDeviceGetName);
    library.resolve("cuDeviceGetAttribute", api.cuDeviceGetAttribute);
    library.resolve("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain);
    library.resolve("cuCtxGetCurrent", api.cuCtxGetCurrent);
    library.resolve("cuCtxPushCurrent_v2", api.cuCtxPushCurrent);
    library.resolve("cuCtxPopCurrent_v2", api.cuCtxPopCurrent);
    library.resolve("cuCtxSynchronize", api.cuCtxSynchronize);
    library.resolve("cuModuleLoadData", api.cuModuleLoadData);
    library.resolve("cuModuleUnload", api.cuModuleUnload);
    library.resolve("cuModuleGetFunction", api.cuModuleGetFunction);
    library.resolve("cuFuncGetAttribute", api.cuFuncGetAttribute);
    library.resolve("cuFuncSetAttribute", api.cuFuncSetAttribute);
    library.resolve("cuLaunchKernel", api.cuLaunchKernel);
    library.resolve("cuStreamIsCapturing", api.cuStreamIsCapturing);
    library.resolve("cuThreadExchangeStreamCaptureMode", api.cuThreadExchangeStreamCaptureMode);
    library.resolve("cuMemsetD8Async", api.cuMemsetD8Async);
    library.resolve_if_present("cuTensorMapEncodeTiled", api.cuTensorMapEncodeTiled);
    return api;
}

int attribute(DeviceHandle handle, int which) {
    int value = 0;
    check(driver().cuDeviceGetAttribute(&value, which, handle), "cuDeviceGetAttribute");
    return value;
}

Device describe(int ordinal) {
    DeviceHandle handle = 0;
    check(driver().cuDeviceGet(&handle, ordinal), "cuDeviceGet");
    std::array<char, 256> name{};
    check(driver().cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, handle), "cuDeviceGetName");
    Device device{};
    device.ordinal = ordinal;
    device.name = name.data();
    device.sm = attribute(handle, kDeviceComputeMajor) * 10 + attribute(handle, kDeviceComputeMinor);
    device.multiprocessors = attribute(handle, kDeviceMultiprocessors);
    device.shared_memory_per_block = attribute(handle, kDeviceSharedMemoryPerBlockOptIn);
    device.shared_memory_per_multiprocessor = attribute(handle, kDeviceSharedMemoryPerMultiprocessor);
    device.l2_bytes = attribute(handle, kDeviceL2Bytes);
    return device;
}

std::vector<Device> find_devices() {
    int count = 0;
    check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
    std::vector<Device> found;
    found.reserve(static_cast<size_t>(count));
    for (int ordinal = 0; ordinal < count; ++ordinal) found.push_back(describe(ordinal));
    return found;
}

const std::vector<Device>& devices() {
    static const Lasting<std::vector<Device>> all(find_devices());
    return *all;
}

} // namespace

Driver open_driver(const std::string& file) {
    const SharedLibrary library(file);
    Driver api = resolve(library);
    check_with(api, api.cuInit(0), "cuInit");
    int version = 0;
    check_with(api, api.cuDriverGetVersion(&version), "cuDriverGetVersion");
    if (version >= 12030) library.resolve_if_present("cuLaunchKernelEx", api.cuLaunchKernelEx);
    return api;
}

const Driver& driver() {
    static const Driver api = open_driver(driver_file());
    return api;
}

int driver_version() {
    int version = 0;
    check(driver().cuDriverGetVersion(&version), "cuDriverGetVersion");
    return version;
}

DriverStatus driver_status() {
    try {
        const int version = driver_version();
        return {true, "", std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)};
    } catch (const Error& error) {
        return {false, error.what(), ""};
    }
}

void check(Result result, const char* call) {
    check_with(driver(), result, call);
}

void check_kernel(Result result, const char* call) {
    if (std::find(std::begin(kKernelsFaults), std::end(kKernelsFaults), result) != std::end(kKernelsFaults))
        throw KernelFailure(failure_text(driver(), result, call));
    check(result, call);
}

int device_count() {
    return static_cast<int>(devices().size());
}

const Device& device(int ordinal) {
    if (ordinal < 0 || ordinal >= device_count()) {
        throw Error("there is no CUDA device " + std::to_string(ordinal) + ": this machine has " +
                    std::to_string(device_count()));
    }
    return devices()[static_cast<size_t>(ordinal)];
}

} // namespace tconv3d::cuda
