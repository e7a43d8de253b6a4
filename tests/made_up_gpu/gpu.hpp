#pragma once

#include <string>
#include <vector>

/// A driver and an NVRTC that do nothing but what a test asks for, as one shared library: TCONV3D_CUDA_DRIVER and
/// TCONV3D_NVRTC name it. What it compiles is the source itself, which it loads as a module. Like a driver it refuses
/// what needs a context where the thread has none, or where it has another than a kernel's.
namespace tconv3d::testing {

struct MadeUpGpu {
    int devices = 1; ///< at most 8
    int driver_version = 13000;
    int sm = 90;
    int nvrtc_major = 13, nvrtc_minor = 0;
    std::vector<int> architectures = {80, 90};

    std::string not_compiled; ///< NVRTC fails on sources with this text, unless it is empty
    int compile_result = 6;   ///< with this result
    std::string not_loaded;   ///< the driver refuses modules with this text
    int load_result = 200;
    std::string not_launched; ///< and launches of their kernels
    int launch_result = 701;
    int synchronize_result = 0;
    bool captures = false;           ///< whether every stream but the default one is captured
    bool captures_elsewhere = false; ///< whether another thread captures a stream that no test uses

    int compilations = 0;
    std::vector<std::string> loaded, unloaded, launched; ///< sources
};

} // namespace tconv3d::testing

/// Its state.
extern "C" tconv3d::testing::MadeUpGpu* made_up_gpu();
