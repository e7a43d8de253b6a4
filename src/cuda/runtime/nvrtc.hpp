#pragma once

#include <string>
#include <vector>

namespace tconv3d::cuda {

/// NVRTC, the compiler that ships with PyTorch's CUDA packages. It needs neither a GPU nor a driver.
struct NvrtcStatus {
    bool available;
    std::string reason;  ///< why it is not available
    std::string version; ///< such as 13.0
    std::string file;
};

NvrtcStatus nvrtc_status();

/// Folders to look into before the system's, best first: where PyTorch's packages put their NVRTC.
void set_nvrtc_folders(std::vector<std::string> folders);

struct NvrtcVersion {
    int major;
    int minor;
};

/// Each of these throws Error, with every place that was tried, when NVRTC is not found.
NvrtcVersion nvrtc_version();

/// Compute capabilities that this NVRTC compiles for, such as 90.
std::vector<int> nvrtc_architectures();

struct SourceFile {
    std::string name;
    std::string text;
};

struct Compilation {
    std::string cubin;
    std::string log;
};

/// Compiles one source; `headers` are what its #include lines may name. Throws KernelFailure with the first errors of
/// the log. TCONV3D_DEBUG_DIR names a folder that receives each compiled source and its headers.
Compilation compile(const SourceFile& source, const std::vector<SourceFile>& headers,
                    const std::vector<std::string>& options);

} // namespace tconv3d::cuda
