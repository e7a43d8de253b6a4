#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/pack.hpp"
#include "cuda/tensorcore/source.hpp"
#include "cuda/tensorcore/tensor_map.hpp"
#include "emulated.hpp"
#include "made_up_devices.hpp"

/// The tensor-core kernels on the host, without a GPU: their source is compiled by this machine's compiler against
/// tests/emulator, where each thread is a fiber.
namespace tconv3d::testing {

/// The digits, or a name, behind `mark`, and where they end.
inline std::string word_behind(const std::string& mark, const std::string& text, size_t& at,
                               const char* letters = "0123456789") {
    const size_t begin = text.find(mark, at) + mark.size();
    at = text.find_first_not_of(letters, begin);
    return text.substr(begin, at - begin);
}

/// The products of a statement of wgmmas<Group>() as calls of the emulator's.
inline std::string host_products(const std::string& statement, const std::string& word) {
    const std::string product = "add.s64 a";
    const bool gathered = statement.find("}, b, a,") != std::string::npos;
    size_t at = 0, inputs = 0;
    for (size_t i = statement.find("=f\"("); i != std::string::npos; i = statement.find("=f\"(", i + 1)) ++inputs;
    for (size_t i = statement.find("+f\"("); i != std::string::npos; i = statement.find("+f\"(", i + 1)) ++inputs;
    const std::string streamed_to = gathered ? "" : "accumulators + " + word_behind("(accumulators[", statement, at);
    std::string calls;
    for (at = statement.find(product); at != std::string::npos; at = statement.find(product, at)) {
        const size_t row = std::stoul(word_behind("%", statement, at)) - inputs - 1; // behind accumulators and weights
        const std::string in = "in.at[" + std::to_string(row) + "] + " + word_behind(", ", statement, at);
        word_behind("%", statement, at);
        const std::string weights = "weights + " + word_behind(", ", statement, at);
        const std::string columns = word_behind("m64n", statement, at);
        std::string to = streamed_to;
        if (gathered) {
            to = "acc.values[" + word_behind("{acc", statement, at) + "] + ";
            to += word_behind("_", statement, at);
        }
        std::string adds = word_behind(gathered ? ", b, a, " : ", a, b, ", statement, at, "1p");
        if (adds == "p") adds = "adds != 0";
        calls += "ptx::wgmma<ptx::" + word + ">(" + to + ", " + columns + ", " +
                 (gathered ? weights + ", " + in : in + ", " + weights) + ", " + adds + ");\n";
    }
    return calls;
}

/// A statement of the prelude for the host. Accumulators of the gathered form need no names there, and are not read
/// from them.
inline std::string host_statement(const std::string& statement, const std::string& word) {
    if (statement.find("wgmma") != std::string::npos) return host_products(statement, word);
    return statement.find("mov.f32 acc") != std::string::npos ? "clear(acc);\n" : "";
}

/// The prelude without what only a GPU's assembler understands: the statements of wgmmas<Group>().
inline std::string host_prelude(std::string prelude, const Problem& problem) {
    const std::string begin = "asm volatile(", end = ");\n";
    const std::string word = problem.dtype == DType::f32    ? "Tf32"
                             : problem.dtype == DType::bf16 ? "Bf16Pair"
                                                            : "F16Pair";
    for (size_t at = prelude.find(begin); at != std::string::npos; at = prelude.find(begin, at)) {
        const size_t length = prelude.find(end, at) + end.size() - at;
        prelude.replace(at, length, host_statement(prelude.substr(at, length), word));
    }
    return "#include \"base/ptx.cuh\"\n" + prelude;
}

/// With few multiprocessors even small problems get the tiles of large ones.
inline cuda::Device small_hopper() {
    cuda::Device device = kHopper;
    device.multiprocessors = 2;
    return device;
}

inline std::string list(const std::array<int64_t, 5>& values) {
    std::string text;
    for (const int64_t value : values) text += std::to_string(value) + ", ";
    return "{" + text + "}";
}

/// What the library would launch.
inline std::string launch_source(const Problem& problem, const cuda::tensorcore::Tiling& tiling) {
    const auto& [tables, config] = tiling;
    const cuda::tensorcore::MapShape shape = cuda::tensorcore::map_shape(problem, config);
    const int64_t packed = cuda::tensorcore::packed_words(problem, tables, config);
    const cuda::Dim3 grid = cuda::tensorcore::pack_grid(cuda::tensorcore::pack_parcel(problem, config, small_hopper()),
                                                        packed, small_hopper());
    return arguments_source(cuda::tensorcore::kernel_arguments(problem, tables, config)) +
           "constexpr int64_t kMapExtents[] = " + list(shape.extents) +
           ";\nconstexpr int64_t kMapStrides[] = " + list(shape.strides) +
           ";\nconstexpr int64_t kMapBox[] = " + list(shape.box) +
           ";\nconstexpr int64_t kMapSteps[] = " + list(shape.steps) +
           ";\nconstexpr bool kMapRounds = " + (problem.math == MathMode::tf32 ? "true" : "false") + ";\n" +
           constant("kMapSwizzle", shape.swizzle) + constant("kPackedBytes", packed * 4) +
           constant("kPackGridX", grid.x) + constant("kPackGridY", grid.y) +
           constant("kPackThreads", cuda::tensorcore::kPackThreads) + constant("kGrid", config.schedule.ctas);
}

/// Kernels of tilings, each with the one that packs its weights and with a bias: many in one program, since most of the
/// time of one goes into headers.
class EmulatedTilings {
public:
    EmulatedTilings() { emulator_.allow_all_again({"schedule", "load", "multiply", "store", "finish/finish.cuh"}); }

    /// The epilogue adds a residual, if it has any step, and does nothing more. `why` is for the reader.
    void add(const Problem& problem, const cuda::tensorcore::Tiling& tiling, const std::string& why = "",
             bool saves_preactivation = false, const Epilogue& epilogue = {}) {
        if (count_ == kMostInProgram) expect_exact();
        const auto& [tables, config] = tiling;
        const std::string number = std::to_string(count_++);
        cuda::KernelRequest request =
            cuda::tensorcore::kernel_request(problem, tables, config, epilogue, {true, saves_preactivation});
        request.prelude = host_prelude(request.prelude, problem);
        const auto parcel = cuda::tensorcore::pack_parcel(problem, config, small_hopper());
        const cuda::KernelRequest pack = cuda::tensorcore::pack_request(problem, tables, config, parcel);
        sources_ += "namespace case_" + number + " {\n#include \"again.hpp\"\n" +
                    kernel_source("packing", pack, "PACK", number) + "#include \"again.hpp\"\n" +
                    kernel_source("products", request, "PRODUCTS", number) + given_source(problem) +
                    launch_source(problem, tiling) + constant("kSharedBytes", request.dynamic_shared_bytes) +
                    constant("kPackSharedBytes", pack.dynamic_shared_bytes) +
                    "#include \"tensorcore_case/is_exact.hpp\"\n}\n";
        calls_ += "    std::printf(\"%s\\n\", R\"(" + problem.str() + ": " + why + "; " + tiling.name() +
                  ")\");\n    std::fflush(stdout);\n    if (!case_" + number +
                  "::is_exact()) wrong += std::printf(\"is wrong\\n\");\n";
    }

    void expect_exact() {
        emulator_.write("cases.cpp", "#include \"tensorcore.hpp\"\n" + sources_ + "int main() {\n    int wrong = 0;\n" +
                                         calls_ + "    return wrong == 0 ? 0 : 1;\n}\n");
        count_ = 0;
        sources_ = calls_ = "";
        ASSERT_TRUE(emulator_.compile("cases.cpp"));
        EXPECT_TRUE(emulator_.execute()) << "a problem above is wrong, or the last one broke a rule";
    }

private:
    static constexpr int kMostInProgram = 16;

    Emulator emulator_;
    int count_ = 0;
    std::string sources_, calls_;
};

constexpr size_t kCasesOfProgram = 6; ///< few enough for several processes

/// How many programs run a list of cases: the number of one is the parameter of a test.
template <typename Case, size_t kCount>
constexpr size_t programs(const Case (&)[kCount]) {
    return (kCount + kCasesOfProgram - 1) / kCasesOfProgram;
}

/// The cases of a program.
template <typename Case, size_t kCount>
std::vector<Case> program(const Case (&cases)[kCount], size_t number) {
    const size_t begin = number * kCasesOfProgram;
    return {cases + begin, cases + std::min(begin + kCasesOfProgram, kCount)};
}

/// The best config for given tables.
inline cuda::tensorcore::Tiling best_for(const Problem& problem, const cuda::tensorcore::TapTables& tables,
                                         cuda::tensorcore::Engine engine) {
    cuda::tensorcore::Tiling tiling{tables, {}};
    cuda::tensorcore::each_config(problem, tables, small_hopper(), engine, [&](const cuda::tensorcore::Config& config) {
        double& clocks = tiling.config.schedule.clocks;
        if (clocks <= 0 || config.schedule.clocks < clocks) tiling.config = config;
    });
    return tiling;
}

} // namespace tconv3d::testing
