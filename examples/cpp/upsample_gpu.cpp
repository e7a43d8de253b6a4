// Doubles the resolution of a volume on an NVIDIA GPU. It is built without CUDA's headers and libraries: tconv3d opens
// the driver and NVRTC itself. Memory and streams may come from anywhere; here they are the driver's.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "tconv3d/tconv3d.hpp"

namespace {

/// Memory on GPU 0, by the few functions of the driver that this takes. All of it is freed with this object.
class Memory {
public:
    Memory() : driver_(dlopen("libcuda.so.1", RTLD_NOW)) {
        if (driver_ == nullptr) throw tconv3d::Error(dlerror());
        void* context = nullptr;
        check("cuInit", function<int(unsigned)>("cuInit")(0));
        check("cuDevicePrimaryCtxRetain", function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0));
        check("cuCtxSetCurrent", function<int(void*)>("cuCtxSetCurrent")(context));
    }
    ~Memory() {
        for (void* address : allocated_) function<int(void*)>("cuMemFree_v2")(address);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void* allocate(size_t bytes) {
        void* address = nullptr;
        if (bytes == 0) return address;
        check("cuMemAlloc", function<int(void**, size_t)>("cuMemAlloc_v2")(&address, bytes));
        return allocated_.emplace_back(address);
    }
    void* copy(const std::vector<float>& values) {
        const size_t bytes = values.size() * sizeof(float);
        void* address = allocate(bytes);
        const auto copy = function<int(void*, const void*, size_t)>("cuMemcpyHtoD_v2");
        check("cuMemcpyHtoD", copy(address, values.data(), bytes));
        return address;
    }
    std::vector<float> read(const void* address, size_t count) const {
        std::vector<float> values(count);
        const auto copy = function<int(void*, const void*, size_t)>("cuMemcpyDtoH_v2");
        check("cuMemcpyDtoH", copy(values.data(), address, count * sizeof(float)));
        return values;
    }

private:
    /// Addresses on the GPU, CUdeviceptr in CUDA's headers, are 64-bit integers: pointers are passed alike.
    template <typename Signature>
    Signature* function(const char* name) const {
        void* found = dlsym(driver_, name);
        if (found == nullptr) throw tconv3d::Error(dlerror());
        return reinterpret_cast<Signature*>(found);
    }
    static void check(const std::string& call, int result) {
        if (result != 0) throw tconv3d::Error(call + " failed: CUDA error " + std::to_string(result));
    }

    void* driver_;
    std::vector<void*> allocated_;
};

void upsample() {
    const auto problem = tconv3d::Problem::parse("n1 ci16 co8 12x24x24 k2 s2");
    const tconv3d::cuda::Plan plan(problem, tconv3d::Epilogue::parse("relu"), 0);
    std::cout << plan.explain() << '\n';

    // Every output voxel has one tap, so dst = max(0, 16 channels * 1 * 0.5 + bias).
    Memory memory;
    tconv3d::Arguments arguments;
    arguments.src = memory.copy(std::vector<float>(static_cast<size_t>(problem.src_elements()), 1.0F));
    arguments.weight = memory.copy(std::vector<float>(static_cast<size_t>(problem.weight_elements()), 0.5F));
    arguments.bias = memory.copy({0, 1, 2, 3, -6, -7, -8, -9});
    const auto elements = static_cast<size_t>(problem.dst_elements());
    arguments.dst = memory.allocate(elements * sizeof(float));
    // On the default stream, which the copy back to the host waits for.
    plan.execute(arguments, nullptr, memory.allocate(plan.workspace_bytes()));
    const std::vector<float> dst = memory.read(arguments.dst, elements);

    std::cout << "dst is " << tconv3d::str(problem.dst()) << "; its first voxel, by channel:";
    for (int64_t channel = 0; channel < problem.dst_channels; ++channel) {
        std::cout << ' ' << dst[static_cast<size_t>(channel * problem.dst_voxels())];
    }
    std::cout << '\n';
}

bool has_gpu() {
    try {
        return tconv3d::cuda::device_count() > 0;
    } catch (const tconv3d::Error& error) {
        std::cout << "There is no GPU to use: " << error.what() << '\n';
        return false;
    }
}

} // namespace

int main() {
    try {
        if (has_gpu()) upsample();
    } catch (const tconv3d::Error& error) {
        std::cerr << "tconv3d: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
