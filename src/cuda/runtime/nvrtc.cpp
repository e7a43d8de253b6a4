#include "cuda/runtime/nvrtc.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cuda/runtime/nvrtc_library.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

namespace fs = std::filesystem;

constexpr NvrtcResult kOutOfMemory = 1;

/// What is compiled is at fault, unless memory is short.
[[noreturn]] void fail(NvrtcResult result, const std::string& message) {
    if (result == kOutOfMemory) throw Error(message);
    throw KernelFailure(message);
}

void check(NvrtcResult result, const char* call) {
    if (result != 0) fail(result, std::string(call) + " failed: " + nvrtc().nvrtcGetErrorString(result));
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
    std::vector<const char*> result;
    result.reserve(texts.size());
    for (const std::string& text : texts) result.push_back(text.c_str());
    return result;
}

class Program {
public:
    Program(const SourceFile& source, const std::vector<SourceFile>& headers) {
        std::vector<const char*> texts;
        std::vector<const char*> names;
        for (const SourceFile& header : headers) {
            texts.push_back(header.text.c_str());
            names.push_back(header.name.c_str());
        }
        check(nvrtc().nvrtcCreateProgram(&program_, source.text.c_str(), source.name.c_str(),
                                         static_cast<int>(headers.size()), texts.data(), names.data()),
              "nvrtcCreateProgram");
    }
    ~Program() { nvrtc().nvrtcDestroyProgram(&program_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    NvrtcResult compile(const std::vector<std::string>& options) {
        return nvrtc().nvrtcCompileProgram(program_, static_cast<int>(options.size()), pointers(options).data());
    }

    std::string log() const {
        size_t bytes = 0; // with the closing zero
        check(nvrtc().nvrtcGetProgramLogSize(program_, &bytes), "nvrtcGetProgramLogSize");
        std::string text(bytes, '\0');
        check(nvrtc().nvrtcGetProgramLog(program_, text.data()), "nvrtcGetProgramLog");
        while (!text.empty() && text.back() == '\0') text.pop_back();
        return text;
    }

    std::string cubin() const {
        size_t bytes = 0;
        check(nvrtc().nvrtcGetCUBINSize(program_, &bytes), "nvrtcGetCUBINSize");
        std::string image(bytes, '\0');
        check(nvrtc().nvrtcGetCUBIN(program_, image.data()), "nvrtcGetCUBIN");
        return image;
    }

private:
    NvrtcProgram program_ = nullptr;
};

/// From the first error on, a screenful.
std::string first_errors(const std::string& log) {
    constexpr int kLines = 12;
    const size_t error = std::min(log.find("error"), log.find("fatal")); // as the compiler or the assembler says
    const size_t line_start = error == std::string::npos ? 0 : log.rfind('\n', error) + 1;
    std::string result;
    size_t begin = line_start;
    for (int count = 0; count < kLines && begin < log.size(); ++count) {
        const size_t end = std::min(log.find('\n', begin), log.size());
        result += "\n  " + log.substr(begin, end - begin);
        begin = end + 1;
    }
    return result;
}

bool write(const fs::path& file, const std::string& text) {
    std::FILE* stream = std::fopen(file.c_str(), "wb");
    if (stream == nullptr) return false;
    const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
    return std::fclose(stream) == 0 && written;
}

/// Where the source lies for a person to read; empty without TCONV3D_DEBUG_DIR.
std::string write_for_debugging(const SourceFile& source, const std::vector<SourceFile>& headers) {
    const char* folder = std::getenv("TCONV3D_DEBUG_DIR");
    if (folder == nullptr || *folder == '\0') return "";
    const auto write_file = [&](const SourceFile& file) {
        const fs::path path = fs::path(folder) / file.name;
        std::error_code ignored;
        fs::create_directories(path.parent_path(), ignored);
        return write(path, file.text);
    };
    bool written = write_file(source);
    for (const SourceFile& header : headers) written = write_file(header) && written;
    return (written ? "source in " : "source could not be written to ") + (fs::path(folder) / source.name).string();
}

} // namespace

NvrtcVersion nvrtc_version() {
    return {nvrtc().major, nvrtc().minor};
}

NvrtcStatus nvrtc_status() {
    try {
        const Nvrtc& api = nvrtc();
        return {true, "", std::to_string(api.major) + "." + std::to_string(api.minor), api.file};
    } catch (const Error& error) {
        return {false, error.what(), "", ""};
    }
}

std::vector<int> nvrtc_architectures() {
    int count = 0;
    check(nvrtc().nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
    std::vector<int> architectures(static_cast<size_t>(count));
    check(nvrtc().nvrtcGetSupportedArchs(architectures.data()), "nvrtcGetSupportedArchs");
    return architectures;
}

Compilation compile(const SourceFile& source, const std::vector<SourceFile>& headers,
                    const std::vector<std::string>& options) {
    const std::string written = write_for_debugging(source, headers);
    Program program(source, headers);
    const NvrtcResult result = program.compile(options);
    const std::string log = program.log();
    if (result != 0) {
        fail(result, "NVRTC cannot compile " + source.name + ": " + nvrtc().nvrtcGetErrorString(result) +
                         (written.empty() ? "; TCONV3D_DEBUG_DIR names a folder for its source" : "; " + written) +
                         first_errors(log));
    }
    return {program.cubin(), log};
}

} // namespace tconv3d::cuda
