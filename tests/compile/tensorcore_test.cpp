// Kernels for tensor cores that selection does not choose for the baselines, which chosen_test.cpp compiles: samples of
// the gathered form and of kernels for any size for the baselines, and of the streamed form for the problem file.
#include "cuda/select/family.hpp"
#include "cuda/tensorcore/any_size.hpp"
#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/families.hpp"
#include "cuda/tensorcore/pack.hpp"
#include "cuda/tensorcore/source.hpp"
#include "made_up_devices.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::sampled_every;

const Device& device_for(Engine engine) {
    return engine == Engine::wgmma ? kHopper : kAmpere;
}

bool accepts(const Problem& problem, Engine engine, Form form) {
    if (problem.batch == 0) return false;
    const auto answer = engine == Engine::mma ? answer_mma : form == Form::gathered ? answer_gathered : answer_streamed;
    return answer({problem, {}, device_for(engine)}).accepts();
}

void expect_compiles(const Problem& problem, Engine engine, const Tiling& tiling, bool has_bias) {
    const Device& device = device_for(engine);
    const auto& [tables, config] = tiling;
    const std::string where = problem.str() + ", " + config.name();
    const Compiled kernel = compile_for(device.sm, kernel_request(problem, tables, config, {}, {has_bias, false}));
    testing::expect_fits(kernel, problem, config, where);
    const PackParcel parcel = pack_parcel(problem, config, device);
    EXPECT_EQ(compile_for(device.sm, pack_request(problem, tables, config, parcel)).spill_bytes, 0) << where;
}

void expect_compiles(const Problem& problem, Engine engine, Form form, bool has_bias) {
    expect_compiles(problem, engine, best_tilings(problem, device_for(engine), engine, form, 1).front(), has_bias);
}

/// Every `step`-th of the problems, with and without a bias in turns.
void expect_all_compile(const std::vector<Problem>& problems, Engine engine, Form form, size_t step) {
    for (size_t i = 0; i < problems.size(); i += step) expect_compiles(problems[i], engine, form, i / step % 2 == 0);
}

/// All modes of the problems that the form takes.
std::vector<Problem> taken(const std::vector<Problem>& problems, Engine engine, Form form) {
    std::vector<Problem> list;
    for (const Problem& listed : problems)
        for (const Problem& problem : testing::modes(listed))
            if (accepts(problem, engine, form)) list.push_back(problem);
    return list;
}

using TensorCoreCompile = testing::NvrtcTest;
using WgmmaCompile = testing::WgmmaTest;

/// Those that this NVRTC knows.
std::vector<Engine> engines() {
    return reject_wgmma(kHopper.sm).empty() ? std::vector<Engine>{Engine::wgmma, Engine::mma}
                                            : std::vector<Engine>{Engine::mma};
}

TEST_F(WgmmaCompile, GatheredTakesTheBaselines) {
    std::vector<Problem> problems;
    for (const Problem& problem : taken(testing::read_problems("baselines.txt"), Engine::wgmma, Form::gathered))
        if (std::string(choose(problem, {}, kHopper).family->name) != "gather") problems.push_back(problem);
    expect_all_compile(problems, Engine::wgmma, Form::gathered, sampled_every() > 1 ? 13 : 1);
}

/// The baselines in a direction.
std::vector<Problem> baselines(Direction direction) {
    std::vector<Problem> problems = testing::read_problems("baselines.txt");
    for (Problem& problem : problems) problem.direction = direction;
    return problems;
}

/// All kernels of a layer, though only the first one is taken.
TEST_F(TensorCoreCompile, AnySizeTakesTheBaselines) {
    size_t at = 0;
    const size_t step = sampled_every() > 1 ? 262 : 1;
    for (const Engine engine : engines())
        for (const Direction direction : {Direction::fwd, Direction::bwd_data})
            for (const Problem& problem : taken(baselines(direction), engine, Form::streamed))
                for (const Tiling& tiling : any_size_tilings(problem, device_for(engine), engine))
                    if (at++ % step == 0) expect_compiles(problem, engine, tiling, at % 2 == 0);
    EXPECT_GT(at, 700 * engines().size());
}

TEST_F(TensorCoreCompile, StreamedTakesTheProblemFile) {
    const std::vector<Problem> listed = testing::listed_problems();
    for (const Engine engine : engines())
        expect_all_compile(taken(listed, engine, Form::streamed), engine, Form::streamed,
                           (engine == Engine::wgmma ? 19 : 23) * sampled_every());
}

/// Where four warps more rearrange, a thread begins with 128 registers, which the columns of a product may not exceed.
/// Phases without taps store the same values for all channels, in branches that the compiler may leave divergent.
TEST_F(WgmmaCompile, PhasesWithoutTapsSerialiseNoProducts) {
    for (const char* line : {"n1 ci128 co128 40x40x40 k1 s2 f16 ndhwc", "n1 ci128 co368 41x41x41 k2 s3 f16",
                             "n1 ci64 co32 17x18x19 k1 s3 tf32", "n1 ci128 co128 40x40x40 k3 s4 bf16"})
        expect_compiles(Problem::parse(line), Engine::wgmma, Form::streamed, true);
}

/// Rows of NCDHW that are no multiple of 16 bytes: by two warps or by six, and beside many accumulators.
TEST_F(WgmmaCompile, RangesAreRearrangedWithoutSpills) {
    expect_compiles(Problem::parse("n2 ci64 co64 31x31x31 k3 s1 p1 bf16 bwd_data"), Engine::wgmma, Form::streamed,
                    true);
    expect_compiles(Problem::parse("n8 ci48 co24 96x96x96 k3 bf16 bwd_data"), Engine::wgmma, Form::streamed, true);
    expect_compiles(Problem::parse("n4 ci128 co64 17x17x17 k3 s2 p1 f16 bwd_data"), Engine::wgmma, Form::gathered,
                    true);
    expect_compiles(Problem::parse("n2 ci128 co32 31x65x17 k5 s2 p1 bf16"), Engine::wgmma, Form::streamed, true);
}

/// A lane asks for several rows of core matrices, element by element, before it needs the first.
TEST_F(WgmmaCompile, SingleElementsAreLoadedSideBySide) {
    if (!testing::no_disassembler().empty()) GTEST_SKIP() << testing::no_disassembler();
    const size_t loads = nvrtc_version().major < 13 ? 12 : 16; // earlier ones use some of the first before the last
    for (const char* line :
         {"n2 ci37 co32 31x31x31 k3 s1 p1 bf16 ndhwc", "n2 ci37 co32 31x31x31 k3 s1 p1 tf32 ndhwc"}) {
        const Problem problem = Problem::parse(line);
        const auto [tables, config] = best_tilings(problem, kHopper, Engine::wgmma, Form::streamed, 1).front();
        ASSERT_EQ(config.input.source, Source::global) << line;
        const Compiled kernel = compile_for(kHopper.sm, kernel_request(problem, tables, config, {}, {false, false}));
        EXPECT_GE(testing::most_loads_under_way(testing::disassemble(kernel.cubin)), loads) << line;
    }
}

TEST_F(WgmmaCompile, ManyTapsAlongDepthHaveTheirRegisters) {
    expect_compiles(Problem::parse("n8 ci240 co432 31x31x31 k14x1x5 s1x1x5 p0x1x0 f16 bwd_data"), Engine::wgmma,
                    Form::streamed, false);
    expect_compiles(Problem::parse("n2 ci64 co64 31x31x31 k13x1x3 s1x1x2 p0x0x1 tf32 bwd_data"), Engine::wgmma,
                    Form::streamed, true);
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
