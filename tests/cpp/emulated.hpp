#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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

/// A folder with the kernels, base/ptx/ and all else from tests/emulator, and problem.hpp: there a kernel is compiled
/// by this machine's compiler, and run.
class Emulator {
public:
    /// Without problem.hpp.
    Emulator() {
        namespace fs = std::filesystem;
        for (const char* source : {TCONV3D_KERNELS, TCONV3D_EMULATOR})
            fs::copy(source, folder_ / "", fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
    explicit Emulator(const Problem& problem) : Emulator() { write("problem.hpp", given(problem)); }

    void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
    /// Lets a header be included several times, in other namespaces.
    void allow_again(const std::string& name) const { write(name, without_once(name)); }
    /// Likewise, once for each time that the macro is undefined.
    void allow_again(const std::string& name, const std::string& macro) const {
        write(name, "#ifndef " + macro + "\n#define " + macro + "\n" + without_once(name) + "#endif\n");
    }
    bool compile(const std::string& sources) const {
        return run(TCONV3D_CXX " -I. -o emulated " TCONV3D_EMULATOR_DEVICE " " + sources);
    }
    bool execute() const { return run("./emulated"); }

private:
    std::string without_once(const std::string& name) const {
        std::stringstream text;
        text << std::ifstream(folder_ / name).rdbuf();
        const std::string once = "#pragma once\n";
        return text.str().erase(text.str().find(once), once.size());
    }

    static std::string extents(const std::string& name, const Extents& values) {
        return constant((name + "D").c_str(), values[0]) + constant((name + "H").c_str(), values[1]) +
               constant((name + "W").c_str(), values[2]);
    }

    static std::string given(const Problem& problem) {
        return "#pragma once\nnamespace given {\n" + constant("kBatch", problem.batch) +
               constant("kCi", problem.src_channels_per_group()) + constant("kCo", problem.dst_channels_per_group()) +
               constant("kGroups", problem.groups) + constant("kChannelsLast", problem.channels_last() ? 1 : 0) +
               constant("kBwdData", problem.direction == Direction::bwd_data ? 1 : 0) +
               constant("kFp32", problem.dtype == DType::f32 && problem.math == MathMode::full ? 1 : 0) +
               extents("kSrc", problem.src) + extents("kDst", problem.dst()) + extents("kKernel", problem.kernel) +
               extents("kStride", problem.stride) + extents("kPadding", problem.padding) +
               extents("kDilation", problem.dilation) + "}\n";
    }

    bool run(const std::string& command) const {
        return std::system(("cd " + (folder_ / "") + " && " + command).c_str()) == 0;
    }

    ScratchFolder folder_;
};

} // namespace tconv3d::testing
