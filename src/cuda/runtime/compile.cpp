#include "cuda/runtime/compile.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "core/lasting.hpp"
#include "cuda/runtime/kernel_sources.hpp"
#include "cuda/runtime/nvrtc.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

std::string version_text() {
    const NvrtcVersion version = nvrtc_version();
    return std::to_string(version.major) + "." + std::to_string(version.minor);
}

bool is_nvrtc_before(int major, int minor) {
    const NvrtcVersion version = nvrtc_version();
    return version.major < major || (version.major == major && version.minor < minor);
}

std::vector<std::string> options_for(int sm) {
    std::vector<std::string> options = {
        "--gpu-architecture=" + architecture(sm),
        "--std=c++17",
        "--device-as-default-execution-space", // constexpr functions need no annotation
        "--ptxas-options=-v",                  // registers and spills, into the log
    };
    // NVRTC's own cache, which is used where there is a driver, knows the cubin but not its report; and ours is enough.
    if (!is_nvrtc_before(12, 9)) options.emplace_back("--no-cache");
    if (std::getenv("TCONV3D_DEBUG_DIR") != nullptr) options.emplace_back("--generate-line-info");
    return options;
}

std::string source_text(const KernelRequest& request) {
    const std::vector<SourceFile>& sources = kernel_sources();
    const auto has_name = [&](const SourceFile& source) { return source.name == request.file; };
    if (std::none_of(sources.begin(), sources.end(), has_name)) {
        throw Error("there is no embedded kernel source '" + request.file + "'");
    }
    return "#line 1 \"prelude\"\n" + request.prelude + "\n#include \"" + request.file + "\"\n";
}

/// Any embedded file may be included by any other, so that a change of one gives every kernel a new key.
const std::string& sources_digest() {
    static const Lasting<std::string> digest([] {
        std::string all;
        for (const SourceFile& source : kernel_sources()) all += source.name + '\0' + source.text + '\0';
        return hexadecimal(sha256(all));
    }());
    return *digest;
}

/// Everything that decides the cubin. The entry does not: one cubin holds all kernels of its source.
Digest cache_key(const std::string& source, const std::vector<std::string>& options) {
    std::string text = std::string("tconv3d " TCONV3D_VERSION) + '\0' + "nvrtc " + version_text() + '\0';
    for (const std::string& option : options) text += option + '\0';
    return sha256(text + sources_digest() + '\0' + source);
}

/// A name that tells kernels apart in messages and in TCONV3D_DEBUG_DIR: direct_fwd-1f0c5a9b27e34d68.cu.
std::string file_name(const KernelRequest& request, const Digest& key) {
    const std::string name = request.file.substr(request.file.rfind('/') + 1);
    return name.substr(0, name.rfind('.')) + "-" + hexadecimal(key).substr(0, 16) + ".cu";
}

struct Unit {
    SourceFile source;
    std::vector<std::string> options;
    Digest key;
};

Unit unit_for(int sm, const KernelRequest& request) {
    Unit unit{{"", source_text(request)}, options_for(sm), {}};
    unit.key = cache_key(unit.source.text, unit.options);
    unit.source.name = file_name(request, unit.key);
    return unit;
}

/// The assembler's lines about one kernel: from its heading to the next one.
std::string report_on(const std::string& entry, const std::string& log) {
    const std::string heading = "entry function '";
    const size_t start = log.find(heading + entry + "'");
    if (start == std::string::npos) throw Error("the compiled source has no kernel '" + entry + "'");
    return log.substr(start, log.find(heading, start + heading.size()) - start);
}

/// The number in front of `unit`, as in `Used 75 registers`; 0 when the report does not speak of it.
int64_t number_before(const std::string& unit, const std::string& report) {
    const size_t end = report.find(" " + unit);
    if (end == std::string::npos) return 0;
    const size_t start = report.find_last_not_of("0123456789", end - 1) + 1;
    int64_t value = 0;
    std::from_chars(report.data() + start, report.data() + end, value);
    return value;
}

} // namespace

std::string reject_architecture(int sm) {
    const std::vector<int> known = nvrtc_architectures();
    if (std::find(known.begin(), known.end(), sm) != known.end()) return "";
    std::string list;
    for (const int other : known) list += " sm_" + std::to_string(other);
    return "NVRTC " + version_text() + " does not compile for sm_" + std::to_string(sm) + "; it knows" + list;
}

std::string architecture(int sm) {
    if (const std::string reason = reject_architecture(sm); !reason.empty()) throw KernelFailure(reason);
    const bool has_own_features = sm >= 90 && !is_nvrtc_before(12, 0);
    return "sm_" + std::to_string(sm) + (has_own_features ? "a" : "");
}

std::string reject_wgmma(int sm) {
    if (sm != 90)
        return "wgmma needs compute capability 9.0, got " + std::to_string(sm / 10) + "." + std::to_string(sm % 10);
    // 11.8 does not know the instruction, and 12.0 puts those of the swept form one after the other.
    if (nvrtc_status().available && is_nvrtc_before(12, 1))
        return "wgmma needs NVRTC 12.1 or later, got " + version_text();
    return "";
}

Compiled compile_for(int sm, const KernelRequest& request) {
    const Unit unit = unit_for(sm, request);
    Compilation result = compile(unit.source, kernel_sources(), unit.options);
    const std::string report = report_on(request.entry, result.log);
    Compiled compiled{};
    compiled.registers = static_cast<int>(number_before("registers", report));
    compiled.spill_bytes = number_before("bytes spill stores", report) + number_before("bytes spill loads", report);
    compiled.local_bytes = number_before("bytes stack frame", report);
    compiled.shared_bytes = number_before("bytes smem", report);
    compiled.cubin = std::move(result.cubin);
    compiled.log = std::move(result.log);
    return compiled;
}

std::string cubin_for(int sm, const KernelRequest& request, Cache& cache) {
    const Unit unit = unit_for(sm, request);
    if (std::optional<std::string> cubin = cache.load(unit.key)) return *std::move(cubin);
    const Compilation result = compile(unit.source, kernel_sources(), unit.options);
    cache.store(unit.key, result.cubin);
    return result.cubin;
}

} // namespace tconv3d::cuda
