#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tconv3d::cuda {

using NvrtcResult = int;
using NvrtcProgram = void*;

/// The part of NVRTC's API that tconv3d calls, under NVRTC's own names.
struct Nvrtc {
    NvrtcResult (*nvrtcVersion)(int* major, int* minor);
    NvrtcResult (*nvrtcGetNumSupportedArchs)(int* count);
    NvrtcResult (*nvrtcGetSupportedArchs)(int* architectures);
    const char* (*nvrtcGetErrorString)(NvrtcResult result);
    NvrtcResult (*nvrtcCreateProgram)(NvrtcProgram* program, const char* source, const char* name, int headers,
                                      const char* const* header_texts, const char* const* header_names);
    NvrtcResult (*nvrtcDestroyProgram)(NvrtcProgram* program);
    NvrtcResult (*nvrtcCompileProgram)(NvrtcProgram program, int options, const char* const* option_texts);
    NvrtcResult (*nvrtcGetProgramLogSize)(NvrtcProgram program, size_t* bytes);
    NvrtcResult (*nvrtcGetProgramLog)(NvrtcProgram program, char* log);
    NvrtcResult (*nvrtcGetCUBINSize)(NvrtcProgram program, size_t* bytes);
    NvrtcResult (*nvrtcGetCUBIN)(NvrtcProgram program, char* cubin);

    int major;
    int minor;
    std::string file;
};

/// Opened at the first call that finds it. Throws Error with every place that was tried.
const Nvrtc& nvrtc();

/// Names to open, in order. TCONV3D_NVRTC names the only one. Otherwise: what the process has loaded; `folders`, which
/// hold PyTorch's own; what the loader finds; the usual folders of a CUDA toolkit.
std::vector<std::string> nvrtc_candidates(const std::vector<std::string>& folders);

} // namespace tconv3d::cuda
