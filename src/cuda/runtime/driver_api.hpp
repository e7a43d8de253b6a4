#pragma once

#include <cstddef>
#include <cstdint>

/// The part of the CUDA driver API that tconv3d calls, declared here so that no CUDA header is needed to build.
/// Functions keep the driver's names, for its documentation; constants carry the driver's values.
namespace tconv3d::cuda {

using Result = int;
using DeviceHandle = int;
using DevicePointer = uint64_t;
using Context = void*;
using Module = void*;
using FunctionHandle = void*;
using Stream = void*;

constexpr Result kSuccess = 0;

// CUdevice_attribute
constexpr int kDeviceMultiprocessors = 16;
constexpr int kDeviceL2Bytes = 38;
constexpr int kDeviceComputeMajor = 75;
constexpr int kDeviceComputeMinor = 76;
constexpr int kDeviceSharedMemoryPerMultiprocessor = 81;
constexpr int kDeviceSharedMemoryPerBlockOptIn = 97;

// CUfunction_attribute
constexpr int kFunctionMaxThreads = 0;
constexpr int kFunctionSharedBytes = 1;
constexpr int kFunctionLocalBytes = 3;
constexpr int kFunctionRegisters = 4;
constexpr int kFunctionMaxDynamicSharedBytes = 8;

// CUlaunchAttributeID
constexpr int kLaunchProgrammaticSerialization = 6;

// CUstreamCaptureStatus
constexpr int kCaptureNone = 0;

// CUstreamCaptureMode
constexpr int kCaptureModeRelaxed = 2;

// CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill
constexpr int kTensorMapFloat16 = 6;
constexpr int kTensorMapFloat32 = 7;
constexpr int kTensorMapBFloat16 = 9;
constexpr int kTensorMapTFloat32 = 11;
constexpr int kTensorMapInterleaveNone = 0;
constexpr int kTensorMapSwizzleNone = 0;
constexpr int kTensorMapSwizzle32 = 1;
constexpr int kTensorMapSwizzle64 = 2;
constexpr int kTensorMapSwizzle128 = 3;
constexpr int kTensorMapPromoteNone = 0;
constexpr int kTensorMapPromote128 = 2;
constexpr int kTensorMapPromote256 = 3;
constexpr int kTensorMapFillZero = 0;

/// CUtensorMap: opaque, passed to kernels by value.
struct alignas(64) TensorMap {
    uint64_t words[16];
};

/// CUlaunchAttribute, of those whose value is a number.
struct alignas(8) LaunchAttribute {
    int id;
    int padding;
    int value;
    char rest[60];
};

/// CUlaunchConfig
struct LaunchConfig {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned dynamic_shared_bytes;
    Stream stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};

/// The part of the driver API that tconv3d calls, under its own names: one member for each function.
struct Driver {
    Result (*cuInit)(unsigned flags);
    Result (*cuDriverGetVersion)(int* version);
    Result (*cuGetErrorName)(Result error, const char** name);
    Result (*cuGetErrorString)(Result error, const char** meaning);

    Result (*cuDeviceGetCount)(int* count);
    Result (*cuDeviceGet)(DeviceHandle* device, int ordinal);
    Result (*cuDeviceGetName)(char* name, int bytes, DeviceHandle device);
    Result (*cuDeviceGetAttribute)(int* value, int attribute, DeviceHandle device);

    Result (*cuDevicePrimaryCtxRetain)(Context* context, DeviceHandle device);
    Result (*cuCtxGetCurrent)(Context* context);
    Result (*cuCtxPushCurrent)(Context context);
    Result (*cuCtxPopCurrent)(Context* context);
    Result (*cuCtxSynchronize)();

    Result (*cuModuleLoadData)(Module* module, const void* image);
    Result (*cuModuleUnload)(Module module);
    Result (*cuModuleGetFunction)(FunctionHandle* function, Module module, const char* name);
    Result (*cuFuncGetAttribute)(int* value, int attribute, FunctionHandle function);
    Result (*cuFuncSetAttribute)(FunctionHandle function, int attribute, int value);

    Result (*cuLaunchKernel)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared_bytes,
                             Stream stream, void** arguments, void** extra);
    /// Null in drivers older than CUDA 12.3, which cannot capture what it is called for.
    Result (*cuLaunchKernelEx)(const LaunchConfig* config, FunctionHandle function, void** arguments, void** extra);
    Result (*cuStreamIsCapturing)(Stream stream, int* status);
    Result (*cuThreadExchangeStreamCaptureMode)(int* mode);
    Result (*cuMemsetD8Async)(DevicePointer dst, unsigned char value, size_t count, Stream stream);

    /// Null in drivers older than CUDA 12.0.
    Result (*cuTensorMapEncodeTiled)(TensorMap* map, int data_type, uint32_t rank, void* base, const uint64_t* extents,
                                     const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                                     int interleave, int swizzle, int promotion, int fill);
};

} // namespace tconv3d::cuda
