#include "cuda/runtime/jit.hpp"

#include <memory>
#include <utility>

#include "cuda/runtime/context.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

/// A module that is unloaded again unless it is kept.
class LoadedModule {
public:
    explicit LoadedModule(const std::string& cubin) {
        check_kernel(driver().cuModuleLoadData(&module_, cubin.data()), "cuModuleLoadData");
    }
    ~LoadedModule() {
        if (module_ != nullptr) driver().cuModuleUnload(module_);
    }
    LoadedModule(const LoadedModule&) = delete;
    LoadedModule& operator=(const LoadedModule&) = delete;

    FunctionHandle function(const std::string& entry) const {
        FunctionHandle handle = nullptr;
        check_kernel(driver().cuModuleGetFunction(&handle, module_, entry.c_str()), "cuModuleGetFunction");
        return handle;
    }
    Module keep() { return std::exchange(module_, nullptr); }

private:
    Module module_ = nullptr;
};

int attribute(FunctionHandle handle, int which) {
    int value = 0;
    check(driver().cuFuncGetAttribute(&value, which, handle), "cuFuncGetAttribute");
    return value;
}

void allow_shared_memory(const Device& device, const Function& function) {
    if (function.static_shared_bytes + function.dynamic_shared_bytes > device.shared_memory_per_block) {
        throw KernelFailure("it needs " + std::to_string(function.static_shared_bytes) + " + " +
                            std::to_string(function.dynamic_shared_bytes) +
                            " bytes of shared memory, and a block has at most " +
                            std::to_string(device.shared_memory_per_block));
    }
    check_kernel(driver().cuFuncSetAttribute(function.handle, kFunctionMaxDynamicSharedBytes,
                                             static_cast<int>(function.dynamic_shared_bytes)),
                 "cuFuncSetAttribute");
}

FunctionPtr load(const Device& device, const KernelRequest& request) {
    const std::string cubin = cubin_for(device.sm, request, disk_cache());
    const auto function = std::make_shared<Function>();
    function->context = primary_context(device);
    const ContextScope scope(function->context);
    const UnrecordedScope unrecorded;
    LoadedModule module(cubin);
    function->entry = request.entry;
    function->handle = module.function(request.entry);
    function->max_threads = attribute(function->handle, kFunctionMaxThreads);
    function->registers = attribute(function->handle, kFunctionRegisters);
    function->local_bytes = attribute(function->handle, kFunctionLocalBytes);
    function->static_shared_bytes = attribute(function->handle, kFunctionSharedBytes);
    function->dynamic_shared_bytes = request.dynamic_shared_bytes;
    allow_shared_memory(device, *function);
    function->module = module.keep();
    return function;
}

std::string failure_text(const Device& device, const KernelRequest& request, const Error& error) {
    return "kernel " + request.entry + " of " + request.file + " cannot be loaded on " + device.name + " (sm_" +
           std::to_string(device.sm) + ", driver for CUDA " + driver_status().version + ", NVRTC " +
           nvrtc_status().version + "): " + error.what();
}

std::string str(const Dim3& dim) {
    return std::to_string(dim.x) + "x" + std::to_string(dim.y) + "x" + std::to_string(dim.z);
}

bool within(const Dim3& dim, const Dim3& limit) {
    return dim.x >= 1 && dim.y >= 1 && dim.z >= 1 && dim.x <= limit.x && dim.y <= limit.y && dim.z <= limit.z;
}

constexpr Dim3 kGridLimit = {2147483647, 65535, 65535};
constexpr Dim3 kBlockLimit = {1024, 1024, 64};

void check_extents(const Function& function, const Dim3& grid, const Dim3& block) {
    if (!within(grid, kGridLimit)) {
        throw KernelFailure("kernel " + function.entry + ": a grid of " + str(grid) + " blocks is outside 1x1x1 to " +
                            str(kGridLimit));
    }
    if (!within(block, kBlockLimit) || block.x * block.y * block.z > function.max_threads) {
        throw KernelFailure("kernel " + function.entry + ": a block of " + str(block) +
                            " threads is outside the limit of " + str(kBlockLimit) + " and " +
                            std::to_string(function.max_threads) + " in all");
    }
}

} // namespace

FunctionPtr load_function(const Device& device, const KernelRequest& request) {
    try {
        return load(device, request);
    } catch (const KernelFailure& failure) {
        throw KernelFailure(failure_text(device, request, failure));
    } catch (const Error& error) {
        throw Error(failure_text(device, request, error));
    }
}

std::string reject_device(const Device& device) {
    // A driver loads what older compilers have made, and what newer ones of its own major version have.
    if (!device.is_model() && nvrtc_version().major > driver_version() / 1000)
        return "NVRTC " + nvrtc_status().version + " makes kernels that the driver, for CUDA " +
               driver_status().version + ", cannot load";
    return reject_architecture(device.sm);
}

void launch(const Function& function, const Dim3& grid, const Dim3& block, void** arguments, Stream stream,
            Start start) {
    check_extents(function, grid, block);
    const ContextScope scope(function.context);
    if (!function.captured && is_capturing(stream)) function.captured = true;
    const auto narrow = [](int64_t extent) { return static_cast<unsigned>(extent); };
    const unsigned shared = narrow(function.dynamic_shared_bytes);
    Result result = kSuccess;
    if (start == Start::beside && driver().cuLaunchKernelEx != nullptr) {
        LaunchAttribute beside = {kLaunchProgrammaticSerialization, 0, 1, {}};
        const LaunchConfig config = {narrow(grid.x),  narrow(grid.y), narrow(grid.z), narrow(block.x), narrow(block.y),
                                     narrow(block.z), shared,         stream,         &beside,         1};
        result = driver().cuLaunchKernelEx(&config, function.handle, arguments, nullptr);
    } else {
        result =
            driver().cuLaunchKernel(function.handle, narrow(grid.x), narrow(grid.y), narrow(grid.z), narrow(block.x),
                                    narrow(block.y), narrow(block.z), shared, stream, arguments, nullptr);
    }
    if (result != kSuccess) check_kernel(result, ("the launch of " + function.entry).c_str());
}

} // namespace tconv3d::cuda
