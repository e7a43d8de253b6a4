#include "cuda/runtime/nvrtc_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "core/lasting.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "cuda/runtime/shared_library.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};

std::mutex mutex;
std::vector<std::string>& hinted_folders() {
    static Lasting<std::vector<std::string>> folders;
    return *folders;
}

/// PyTorch's packages also hold libnvrtc-builtins, and old ones a hash in the name: libnvrtc-672ee683.so.11.2.
bool is_nvrtc(const std::string& name) {
    return name.rfind("libnvrtc", 0) == 0 && name.find(".so") != std::string::npos &&
           name.find("builtins") == std::string::npos && name.find(".alt") == std::string::npos;
}

void append_folder(const std::string& folder, std::vector<std::string>& candidates) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        if (is_nvrtc(entry->path().filename().string())) found.push_back(entry->path().string());
    }
    std::sort(found.begin(), found.end(), std::greater<>()); // the newest version first
    candidates.insert(candidates.end(), found.begin(), found.end());
}

/// NVRTC opens libnvrtc-builtins by its bare name, which the loader does not find in a folder of its own choosing.
/// Once it is loaded from beside NVRTC, that bare name leads to it.
void load_builtins(const Nvrtc& api) {
    const std::string name = "libnvrtc-builtins.so." + std::to_string(api.major) + "." + std::to_string(api.minor);
    try {
        const SharedLibrary builtins((fs::path(api.file).parent_path() / name).string());
    } catch (const Error&) {
        // Then NVRTC looks for it by its own means, and says in the log when it finds none.
    }
}

Nvrtc open(const std::string& name) {
    const SharedLibrary library(name);
    Nvrtc api{};
    library.resolve("nvrtcVersion", api.nvrtcVersion);
    library.resolve("nvrtcGetNumSupportedArchs", api.nvrtcGetNumSupportedArchs);
    library.resolve("nvrtcGetSupportedArchs", api.nvrtcGetSupportedArchs);
    library.resolve("nvrtcGetErrorString", api.nvrtcGetErrorString);
    library.resolve("nvrtcCreateProgram", api.nvrtcCreateProgram);
    library.resolve("nvrtcDestroyProgram", api.nvrtcDestroyProgram);
    library.resolve("nvrtcCompileProgram", api.nvrtcCompileProgram);
    library.resolve("nvrtcGetProgramLogSize", api.nvrtcGetProgramLogSize);
    library.resolve("nvrtcGetProgramLog", api.nvrtcGetProgramLog);
    library.resolve("nvrtcGetCUBINSize", api.nvrtcGetCUBINSize);
    library.resolve("nvrtcGetCUBIN", api.nvrtcGetCUBIN);
    api.nvrtcVersion(&api.major, &api.minor);
    api.file = file_of(reinterpret_cast<const void*>(api.nvrtcVersion));
    load_builtins(api);
    return api;
}

Nvrtc open_first(const std::vector<std::string>& candidates) {
    std::string failures;
    for (const std::string& candidate : candidates) {
        try {
            return open(candidate);
        } catch (const Error& error) {
            failures += std::string("\n  ") + error.what();
        }
    }
    throw Error("NVRTC, which compiles the GPU kernels, was not found. It comes with PyTorch's CUDA packages or as the "
                "package nvidia-cuda-nvrtc; TCONV3D_NVRTC names its file. Tried:" +
                failures);
}

} // namespace

std::vector<std::string> nvrtc_candidates(const std::vector<std::string>& folders) {
    const char* chosen = std::getenv("TCONV3D_NVRTC");
    if (chosen != nullptr && *chosen != '\0') return {chosen};

    std::vector<std::string> candidates;
    for (const char* soname : kSonames) {
        if (SharedLibrary::is_loaded(soname)) candidates.emplace_back(soname);
    }
    for (const std::string& folder : folders) append_folder(folder, candidates);
    candidates.insert(candidates.end(), std::begin(kSonames), std::end(kSonames));
    append_folder("/usr/local/cuda/lib64", candidates);
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
        const char* root = std::getenv(variable);
        if (root != nullptr && *root != '\0') append_folder(std::string(root) + "/lib64", candidates);
    }
    return candidates;
}

const Nvrtc& nvrtc() {
    static Lasting<std::optional<Nvrtc>> opened;
    const std::lock_guard<std::mutex> lock(mutex);
    std::optional<Nvrtc>& api = *opened;
    if (!api) api = open_first(nvrtc_candidates(hinted_folders()));
    return *api;
}

void set_nvrtc_folders(std::vector<std::string> folders) {
    const std::lock_guard<std::mutex> lock(mutex);
    hinted_folders() = std::move(folders);
}

} // namespace tconv3d::cuda
