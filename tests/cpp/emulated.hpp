#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/runtime/compile.hpp"
#include "scratch_folder.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::testing {

inline std::string constant(const char* name, int64_t value) {
    return std::string("constexpr int ") + name + " = " + std::to_string(value) + ";\n";
}

/// The bytes of a kernel's argument.
template <typename Arguments>
std::string arguments_source(const Arguments& arguments, const std::string& name = "kArguments") {
    std::string bytes;
    for (size_t i = 0; i < sizeof arguments; ++i)
        bytes += std::to_string(reinterpret_cast<const unsigned char*>(&arguments)[i]) + ", ";
    return "constexpr unsigned char " + name + "[] = {" + bytes + "};\n";
}

inline std::string list(const Extents& values) {
    return "{" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " + std::to_string(values[2]) +
           "}, ";
}

/// check::Given of tests/emulator/definition.hpp. Steps that are never taken may be too large for it: others are given.
inline std::string given_source(const Problem& problem, const Extents& stride, const Extents& dilation) {
    std::string text = "constexpr check::Given kGiven = {";
    for (const int64_t value : {problem.batch, problem.groups, problem.src_channels_per_group(),
                                problem.dst_channels_per_group(), int64_t{problem.channels_last()}})
        text += std::to_string(value) + ", ";
    for (const Extents& values : {problem.src, problem.dst(), problem.kernel, stride, problem.padding, dilation})
        text += list(values);
    return text + "};\n";
}

/// The same for fwd and bwd_data; with kLong, fp32 needs all of its bits.
inline std::string given_source(const Problem& problem) {
    return given_source(problem, problem.stride, problem.dilation) +
           constant("kBwdData", problem.direction == Direction::bwd_data) +
           constant("kLong", problem.dtype == DType::f32 && problem.math == MathMode::full);
}

/// A kernel in a namespace of its own. Its entry, which has none, gets the case's number.
inline std::string kernel_source(const char* space, const cuda::KernelRequest& request, const char* macro,
                                 const std::string& number) {
    const std::string entry = request.entry + "_" + number;
    return std::string("namespace ") + space + " {\n" + request.prelude +
           "extern \"C\" unsigned char shared[];\n#define " + request.entry + " " + entry + "\n#include \"" +
           request.file + "\"\n#undef " + request.entry + "\n}\n#undef " + macro + "\n#define " + macro + " " + space +
           "::" + entry + "\n";
}

/// A folder with the kernels, base/ptx/ and all else from tests/emulator: there a kernel is compiled by this machine's
/// compiler, and run.
class Emulator {
public:
    Emulator() {
        namespace fs = std::filesystem;
        for (const char* source : {TCONV3D_KERNELS, TCONV3D_EMULATOR})
            fs::copy(source, folder_ / "", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }

    void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
    /// Lets a header be included several times, in other namespaces.
    void allow_again(const std::string& name) const { write(name, without_once(name)); }
    /// Likewise, once for each time that the macro is undefined.
    void allow_again(const std::string& name, const std::string& macro) const {
        write(name, "#ifndef " + macro + "\n#define " + macro + "\n" + without_once(name) + "#endif\n");
    }
    /// Likewise, these headers and all of these folders, once for each time that again.hpp is included.
    void allow_all_again(std::initializer_list<const char*> names) const {
        std::vector<std::string> headers;
        for (const std::string name : names) {
            if (std::filesystem::is_regular_file(folder_ / name)) headers.push_back(name);
            if (!std::filesystem::is_directory(folder_ / name)) continue;
            for (const auto& entry : std::filesystem::directory_iterator(folder_ / name))
                headers.push_back(name + "/" + entry.path().filename().string());
        }
        std::string undefined;
        for (size_t i = 0; i < headers.size(); ++i) {
            const std::string macro = "INCLUDED_" + std::to_string(i);
            allow_again(headers[i], macro);
            undefined += "#undef " + macro + "\n";
        }
        write("again.hpp", undefined);
    }
    bool compile(const std::string& sources) const {
        return run(TCONV3D_CXX " -I. -o emulated " TCONV3D_EMULATOR_DEVICE " " + sources);
    }
    bool execute() const { return run(TCONV3D_RUNNER " ./emulated"); }

private:
    std::string without_once(const std::string& name) const {
        std::stringstream text;
        text << std::ifstream(folder_ / name).rdbuf();
        const std::string once = "#pragma once\n";
        return text.str().erase(text.str().find(once), once.size());
    }

    bool run(const std::string& command) const {
        return std::system(("cd " + (folder_ / "") + " && " + command).c_str()) == 0;
    }

    ScratchFolder folder_;
};

} // namespace tconv3d::testing
