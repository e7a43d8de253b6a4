// The streamed kernel on the host, without a GPU: its source is compiled by this machine's compiler against
// tests/emulator, where each thread is a fiber, and must be exact on small integers.
#include <gtest/gtest.h>

#include "cuda/tensorcore/config.hpp"
#include "emulated.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::constant;
using testing::kHopper;

std::string list(const std::array<int64_t, 5>& values) {
    std::string text;
    for (const int64_t value : values) text += std::to_string(value) + ", ";
    return "{" + text + "}";
}

/// The digits, or a name, behind `mark`, and where they end.
std::string word_behind(const std::string& mark, const std::string& text, size_t& at,
                        const char* letters = "0123456789") {
    const size_t begin = text.find(mark, at) + mark.size();
    at = text.find_first_not_of(letters, begin);
    return text.substr(begin, at - begin);
}

/// The products of a statement of wgmmas<Group>() as calls of the emulator's.
std::string host_products(const std::string& statement, const std::string& word) {
    const std::string product = "add.s64 a";
    const bool gathered = statement.find("}, b, a,") != std::string::npos;
    size_t at = 0;
    const std::string scattered_to = gathered ? "" : "sums + " + word_behind("(sums[", statement, at);
    std::string calls;
    for (at = statement.find(product); at != std::string::npos; at = statement.find(product, at)) {
        word_behind("%", statement, at);
        const std::string cores = "cores + " + word_behind(", ", statement, at);
        word_behind("%", statement, at);
        const std::string weights = "weights + " + word_behind(", ", statement, at);
        const std::string columns = word_behind("m64n", statement, at);
        std::string to = scattered_to;
        if (gathered) {
            to = "acc.sums[" + word_behind("{sum", statement, at) + "] + ";
            to += word_behind("_", statement, at);
        }
        std::string adds = word_behind(gathered ? ", b, a, " : ", a, b, ", statement, at, "1p");
        if (adds == "p") adds = "adds != 0";
        calls += "ptx::wgmma<ptx::" + word + ">(" + to + ", " + columns + ", " +
                 (gathered ? weights + ", " + cores : cores + ", " + weights) + ", " + adds + ");\n";
    }
    return calls;
}

/// A statement of the prelude for the host. What sums are gathered in needs no name there, and is not read from it.
std::string host_statement(const std::string& statement, const std::string& word) {
    if (statement.find("wgmma") != std::string::npos) return host_products(statement, word);
    return statement.find("mov.f32 sum") != std::string::npos ? "clear(acc);\n" : "";
}

/// The prelude without what only a GPU's assembler understands: the statements of wgmmas<Group>().
std::string host_prelude(std::string prelude, const Problem& problem) {
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
Device small_hopper() {
    Device device = kHopper;
    device.multiprocessors = 2;
    return device;
}

/// What the library would launch.
std::string launch_source(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const StreamMapShape shape = stream_map_shape(problem, tile);
    const int64_t packed = stream_packed_words(problem, tables, tile);
    const Dim3 pack = stream_pack_grid(stream_pack(problem, tile, small_hopper()), packed, small_hopper());
    return testing::arguments_source(stream_arguments(problem, tables, tile)) +
           "constexpr int64_t kMapExtents[] = " + list(shape.extents) +
           ";\nconstexpr int64_t kMapStrides[] = " + list(shape.strides) +
           ";\nconstexpr int64_t kMapBox[] = " + list(shape.box) +
           ";\nconstexpr bool kMapRounds = " + (problem.math == MathMode::tf32 ? "true" : "false") + ";\n" +
           constant("kMapSwizzle", shape.swizzle) + constant("kPackedBytes", packed * 4) +
           constant("kPackGridX", pack.x) + constant("kPackGridY", pack.y) +
           constant("kPackThreads", kStreamPackThreads) + constant("kGrid", tile.ctas);
}

class Emulated {
public:
    Emulated(const Problem& problem, StreamEngine engine)
        : Emulated(problem, choose_stream(problem, small_hopper(), engine)) {}

    Emulated(const Problem& problem, StreamEngine engine, StreamRows rows)
        : Emulated(problem, choice(problem, engine, StreamTables(problem, rows))) {}

    Emulated(const Problem& problem, const StreamChoice& choice, bool saves_preactivation = false)
        : emulator_(problem), tile_(choice.tile) {
        const auto& [tables, tile] = choice;
        const KernelRequest request = stream_request(problem, tables, tile, {}, true, saves_preactivation);
        emulator_.write("prelude.hpp", host_prelude(request.prelude, problem));
        emulator_.write("kernel.hpp", "#include \"" + request.file + "\"\n");
        emulator_.write("pack_prelude.hpp",
                        stream_pack_request(problem, tables, tile, stream_pack(problem, tile, small_hopper())).prelude);
        emulator_.write("launch.hpp", launch_source(problem, tables, tile));
    }

    const StreamTile& tile() const { return tile_; }
    bool compile() const { return emulator_.compile("stream.cpp pack.cpp"); }
    bool execute() const { return emulator_.execute(); }

private:
    static StreamChoice choice(const Problem& problem, StreamEngine engine, const StreamTables& tables) {
        return {tables, choose_stream_tile(problem, tables, small_hopper(), engine)};
    }

    testing::Emulator emulator_;
    StreamTile tile_;
};

struct Case {
    const char* problem;
    StreamEngine engine;
    StreamStore store;
    const char* why;
    StreamRows rows = StreamRows::together;
    bool own_weights = false;
    bool slices = false; ///< several in a tile
};

constexpr StreamEngine kWgmma = StreamEngine::wgmma, kMma = StreamEngine::mma;
constexpr StreamStore kVoxel = StreamStore::voxel, kStaged = StreamStore::staged, kChannels = StreamStore::channels;

constexpr StreamRows kTogether = StreamRows::together, kApart = StreamRows::apart;

constexpr Case kCases[] = {
    {"n2 ci92 co20 3x5x8 k3 tf32", kWgmma, kVoxel, "planes, channels that fill no tile, many stages"},
    {"n1 ci9 co24 5x9x16 k3 s2 p1 tf32", kWgmma, kStaged, "rows of odd length go through shared memory"},
    {"n1 ci16 co12 3x6x16 k3 s2 p1 bf16", kWgmma, kStaged, "the same in 16 bits"},
    {"n1 ci8 co12 3x6x16 k3 s2 p1 d2 tf32", kWgmma, kStaged, "the same, and slices without taps"},
    {"n2 ci16 co20 3x6x16 k3 s2 p1 d2 f16", kWgmma, kStaged, "the same in 16 bits"},
    {"n3 ci16 co8 3x4x8 k3x2x2 s2 f16", kWgmma, kVoxel, "phases of a voxel side by side, images that share a tile"},
    {"n3 ci40 co24 3x4x8 k2 s2 f16", kWgmma, kVoxel, "weights that the CTA packs, slices that share a tile", kTogether,
     true, true},
    {"n2 ci28 co40 2x5x8 k2 s2 g2 tf32", kWgmma, kVoxel, "the same for groups that fill no tile", kTogether, true},
    {"n1 ci24 co72 2x4x5 k2 s2 bf16 ndhwc", kWgmma, kChannels, "the same, channels last", kTogether, true},
    {"n3 ci40 co8 4x3x4 k2 s2 bf16", kWgmma, kVoxel, "the same, images that share a tile", kTogether, true},
    {"n2 ci8 co8 6x3x8 k3x2x4 s3x2x2 p0x0x1 tf32", kWgmma, kVoxel, "slices that share a tile and have a halo",
     kTogether, false, true},
    {"n2 ci9 co8 6x2x3 k2x3x3 s2x1x1 f16", kWgmma, kVoxel, "the same, of odd rows", kTogether, false, true},
    {"n1 ci16 co8 3x5x16 k3 p1 bf16", kWgmma, StreamStore::quads, "four voxels at once"},
    {"n1 ci16 co8 3x5x16 k3 bf16", kWgmma, StreamStore::pairs, "two voxels at once"},
    {"n1 ci40 co8 2x9x40 k3 p1 bf16", kWgmma, StreamStore::quads, "large planes of 16 bits, many channels"},
    {"n1 ci16 co8 2x5x200 k3x3x5 p1x1x3 f16", kWgmma, StreamStore::pairs,
     "rows of 16 bits that begin anywhere in 16 bytes"},
    {"n2 ci24 co8 3x3x8 k3x5x3 p1x3x1 f16", kWgmma, StreamStore::quads, "small planes of 16 bits within a halo"},
    {"n2 ci8 co16 3x4x5 k4x3x3 s2 p1 tf32 ndhwc", kWgmma, kChannels, "positions from the copy engine"},
    {"n1 ci16 co72 2x4x5 k3 s1x2x1 p1 g2 bf16 ndhwc", kWgmma, kChannels, "groups, channels of 16 bits"},
    {"n3 ci120 co16 2x4x5 k3 p1 bf16 ndhwc", kWgmma, kChannels,
     "64 bytes of channels in a row, some that are not there"},
    {"n2 ci64 co16 2x4x5 k2x3x3 tf32 ndhwc", kWgmma, kChannels, "128 bytes of channels in a row, images"},
    {"n2 ci24 co20 3x5x8 k5x3x4 s2 p1 tf32", kWgmma, kVoxel, "rows apart, one with more taps than the other", kApart},
    {"n3 ci16 co40 5x4x4 k3x5x3 s1x3x2 p1x2x1 bf16 ndhwc", kWgmma, kChannels, "rows apart by three, images", kApart},
    {"n1 ci24 co8 2x5x7 k3 d2 f32", kWgmma, kVoxel, "fp32 in parts, rows that the copy engine does not take", kApart},
    {"n2 ci16 co12 3x5x8 k3x4x5 s2 p1x1x2 op1x0x0 f32", kWgmma, kVoxel, "fp32 in parts, taps of four sums in a group"},
    {"n1 ci16 co20 3x5x8 k3x5x4 s2 p1 f32", kWgmma, kVoxel, "fp32 in parts, rows apart", kApart},
    {"n2 ci72 co8 3x4x8 k2 s2 f32", kWgmma, kVoxel, "fp32 in parts, weights that the CTA packs, slices", kTogether,
     true, true},
    {"n1 ci64 co8 2x4x4 k2 s2 f32", kWgmma, kVoxel, "the same, several k steps a stage, one busy warpgroup", kTogether,
     true},
    {"n2 ci28 co40 2x5x8 k2 s2 g2 f32", kWgmma, kVoxel, "fp32 in parts, two k steps summed up, one busy warpgroup"},
    {"n1 ci32 co16 2x4x5 k2x2x4 s2 f32 ndhwc", kWgmma, kChannels, "the same, two groups of taps"},
    {"n1 ci8 co8 2x3x4 k2x5x4 s1x2x2 f32", kMma, kVoxel, "fp32 in parts by mma.sync"},
    {"n1 ci8 co8 2x4x5 k3 s2 p1 op1 tf32", kMma, kVoxel, "mma.sync"},
};

void PrintTo(const Case& one, std::ostream* text) {
    *text << one.problem;
}

class StreamEmulatedCase : public ::testing::TestWithParam<Case> {};

TEST_P(StreamEmulatedCase, IsExactOnIntegers) {
    const Emulated emulated(Problem::parse(GetParam().problem), GetParam().engine, GetParam().rows);
    EXPECT_EQ(emulated.tile().store, GetParam().store) << GetParam().problem << ": " << emulated.tile().name();
    EXPECT_EQ(emulated.tile().own_weights, GetParam().own_weights) << GetParam().problem;
    EXPECT_EQ(emulated.tile().slices > 1, GetParam().slices) << GetParam().problem << ": " << emulated.tile().name();
    ASSERT_TRUE(emulated.compile()) << GetParam().problem;
    EXPECT_TRUE(emulated.execute()) << GetParam().problem << ": " << GetParam().why << "; " << emulated.tile().name();
}

/// A kind of tile that gathers.
struct GatherCase {
    const char* problem;
    const char* why;
    bool images = false; ///< several in a tile
    bool interleaved = false;
    bool cut = false; ///< rows are
    bool keeps = false;
    bool seams = false;
    bool pieces = false;
};

constexpr GatherCase kGatherCases[] = {
    {"n1 ci16 co72 3x5x16 k3 bf16", "channels that fill no tile, rows whose halo is the next one's"},
    {"n2 ci40 co20 3x7x8 k3 p1 f16", "many stages"},
    {"n1 ci8 co20 3x8x16 k3 tf32", "fp32"},
    {"n1 ci16 co8 2x9x48 k3x5x3 bf16", "rows in several runs, contiguous in dst"},
    {"n1 ci8 co8 2x9x32 k3x5x3 p1x2x1 tf32", "the same in fp32, within a halo"},
    {"n1 ci16 co8 2x5x14 k3 p0x1x1 f16", "two voxels at once"},
    {"n1 ci8 co12 2x5x16 k3x3x4 p1 s1x1x2 d1x2x1 tf32", "phases along W in fp32, dilation"},
    {"n1 ci16 co72 3x6x16 k3 s2 p1 op1 bf16", "phases along H in turn"},
    {"n1 ci16 co12 3x5x8 k3 s2x1x1 p1x1x1 op1x0x0 f16", "phases along D"},
    {"n2 ci8 co8 3x5x16 k3x3x4 s2 p1 d2x1x1 tf32", "slices without taps"},
    {"n1 ci16 co8 3x5x13 k3x3x2 p1x1x0 bf16", "rows that the copy engine does not take"},
    {"n1 ci16 co8 2x4x24 k3x3x4 s1x1x2 p1 bf16", "rows that are cut", false, false, true},
    {"n1 ci16 co8 2x4x32 k3x3x3 p1x1x1 bf16", "the same, four voxels at once", false, false, true},
    {"n4 ci16 co8 2x4x6 k3 p1 f16", "images one behind the other", true},
    {"n5 ci16 co72 3x8x8 k4 s2 p1 bf16", "images side by side in each row", true, true},
    {"n3 ci24 co72 3x6x8 k4 s2 p1 tf32", "the same in fp32", true, true},
    {"n1 ci16 co72 3x5x7 k3 bf16 ndhwc", "channels last"},
    {"n2 ci8 co22 3x4x5 k3 s2 p1 tf32 ndhwc", "the same in fp32, phases along H in turn"},
    {"n4 ci16 co16 2x3x5 k3 p1 g2 f16 ndhwc", "groups"},
    {"n4 ci16 co7 2x3x6 k3 p1 f16 ndhwc", "images, an odd number of channels", true},
    {"n5 ci16 co72 3x8x8 k4 s2 p1 bf16 ndhwc", "images side by side in each row", true, true},
    {"n3 ci24 co13 3x6x7 k4x3x3 s2x1x1 p1 tf32 ndhwc", "the same in fp32, an odd number of channels", true, true},
    {"n3 ci56 co20 3x6x8 k4 s2 p1 bf16 ndhwc", "the same, 128 bytes of channels in a row, slices that stay", true, true,
     false, true},
    {"n2 ci64 co16 2x4x5 k2x3x3 tf32 ndhwc", "the same, images one behind the other", true, false, false, true},
    {"n1 ci8 co8 2x3x8 k1 p1 tf32", "padding beyond the kernel"},
    {"n1 ci16 co72 3x5x16 k3 s2 p1 bf16", "rows of odd length in 16 bits"},
    {"n2 ci8 co20 3x6x8 k3 s2 p1 tf32", "the same in fp32, several items"},
    {"n1 ci16 co8 2x5x16 k3x3x4 f16", "the same, stride 1"},
    {"n1 ci8 co8 2x5x8 k3x3x4 p1 tf32", "the same in fp32"},
    {"n1 ci16 co8 2x4x24 k3 s1x1x2 p1 bf16", "rows of odd length that are cut", false, false, true},
    {"n1 ci8 co8 2x4x24 k3 s1x1x2 p1 tf32", "the same in fp32", false, false, true},
    {"n1 ci16 co8 7x5x16 k3 bf16", "slices that stay", false, false, false, true},
    {"n2 ci32 co72 5x4x8 k3x3x3 p1 tf32", "the same, several stages and items", false, false, false, true},
    {"n2 ci16 co20 5x4x16 k3 s2 p1 op1 f16", "the same, phases", false, false, false, true},
    {"n1 ci16 co8 5x4x16 k3 s2 p1 bf16", "the same, rows of odd length", false, false, false, true},
    {"n1 ci16 co16 6x4x8 k3x3x3 d2x1x1 p1 bf16", "the same, dilation along D", false, false, false, true},
    {"n3 ci16 co16 4x3x5 k4x3x3 s2x1x1 p3x1x1 bf16 ndhwc", "the same, channels last, slices without taps", false, false,
     false, true},
    {"n3 ci8 co8 1x3x8 k3x3x3 s3x1x1 p1x1x1 op2x0x0 tf32", "the same, slices that no step reads", false, false, false,
     true},
    {"n2 ci8 co20 3x6x8 k3 s2 p1 tf32", "rows that meet within sectors", false, false, false, false, true},
    {"n1 ci8 co8 2x5x8 k3x3x4 p1 tf32", "the same, stride 1", false, false, false, false, true},
    {"n1 ci16 co8 2x5x16 k3x3x4 f16", "the same in 16 bits", false, false, false, false, true},
    {"n1 ci8 co8 2x4x16 k3x5x3 s1x3x2 p1 tf32", "the same, three phases along H", false, false, false, false, true},
    {"n1 ci16 co8 2x4x16 k3x5x3 s1x3x2 p1 f16", "the same in 16 bits", false, false, false, false, true},
    {"n1 ci16 co72 3x5x16 k3 s2 p1 bf16", "pieces of many rows", false, false, false, false, false, true},
    {"n2 ci16 co20 3x4x15 k3 s2 p1 f16", "the same, an odd number of voxels", false, false, false, true, false, true},
    {"n1 ci16 co8 4x5x16 k3x4x4 s1x2x1 p1 bf16", "the same, stride 1 along W", false, false, false, true, false, true},
    {"n1 ci16 co8 3x3x18 k1x3x3 s2 p1 op1x0x0 bf16", "the same, slices without taps", false, false, false, true, false,
     true},
    {"n1 ci16 co8 2x4x16 k3x3x4 s2 p1x1x0 f16", "the same, rows of even length", false, false, false, true, false,
     true},
};

void PrintTo(const GatherCase& one, std::ostream* text) {
    *text << one.problem;
}

StreamChoice gathering(const Problem& problem, const GatherCase& kind) {
    const StreamRows rows = problem.stride[1] > 1 ? StreamRows::apart : StreamRows::together;
    StreamChoice choice{StreamTables(problem, rows, StreamForm::gather), {}};
    each_gather_tile(problem, choice.tables, small_hopper(), [&](const StreamTile& tile) {
        const bool same = (tile.images > 1) == kind.images && tile.interleaved == kind.interleaved &&
                          (tile.w < choice.tables.q_end[2]) == kind.cut && tile.keeps == kind.keeps &&
                          tile.seams == kind.seams && tile.pieces == kind.pieces;
        if (same && (choice.tile.clocks <= 0 || tile.clocks < choice.tile.clocks)) choice.tile = tile;
    });
    return choice;
}

class GatherEmulatedCase : public ::testing::TestWithParam<GatherCase> {};

TEST_P(GatherEmulatedCase, IsExactOnIntegers) {
    const Problem problem = Problem::parse(GetParam().problem);
    const StreamChoice choice = gathering(problem, GetParam());
    ASSERT_GT(choice.tile.clocks, 0) << "no such tile";
    // What goes through shared memory does so for each tensor.
    for (const bool saves_preactivation : {false, true}) {
        if (saves_preactivation && choice.tile.store != StreamStore::staged) continue;
        const Emulated emulated(problem, choice, saves_preactivation);
        ASSERT_TRUE(emulated.compile()) << GetParam().problem;
        EXPECT_TRUE(emulated.execute()) << GetParam().problem << ": " << GetParam().why << "; " << choice.tile.name();
    }
}

INSTANTIATE_TEST_SUITE_P(All, GatherEmulatedCase, ::testing::ValuesIn(kGatherCases));

/// Weights of which all rotations would be too many bytes: here the tile is told so, and small ones do.
TEST(StreamEmulated, TurnsTheOnlyRotationThatIsPacked) {
    const struct {
        const char* problem;
        StreamEngine engine;
    } cases[] = {{"n1 ci16 co8 7x4x8 k5x3x3 s2x1x1 p2x1x1 tf32", kWgmma},
                 {"n1 ci8 co8 6x3x8 k4x2x2 s2 f32", kWgmma},
                 {"n1 ci16 co16 7x4x8 k5x4x3 f32", kWgmma},
                 {"n2 ci16 co8 5x4x5 k3 d2 bf16 ndhwc", kWgmma},
                 {"n1 ci8 co8 5x3x8 k3x2x2 s1x2x2 tf32", kMma}};
    for (const auto& [line, engine] : cases) {
        const Problem problem = Problem::parse(line);
        StreamChoice choice = choose_stream(problem, small_hopper(), engine);
        ASSERT_FALSE(choice.tile.own_weights) << line;
        ASSERT_GT(choice.tables.rotations, 1) << line;
        const int64_t all = stream_packed_words(problem, choice.tables, choice.tile);
        choice.tile.turned = true;
        EXPECT_EQ(stream_packed_words(problem, choice.tables, choice.tile) * choice.tables.rotations, all) << line;
        const Emulated emulated(problem, choice);
        ASSERT_TRUE(emulated.compile()) << line;
        EXPECT_TRUE(emulated.execute()) << line << ": " << choice.name();
    }
}

/// Tiles that the output channels are no multiple of, though they are one of what a CTA packs at once: behind the last
/// weight nothing may be read.
TEST(StreamEmulated, ReadsNoWeightsOfChannelsThatAreNotThere) {
    for (const char* line : {"n1 ci8 co32 2x4x8 k3 f32", "n1 ci8 co32 2x3x5 k3 tf32 ndhwc"}) {
        const Problem problem = Problem::parse(line);
        StreamChoice choice{StreamTables(problem), {}};
        each_stream_tile(problem, choice.tables, small_hopper(), kWgmma, [&](const StreamTile& tile) {
            if (!tile.own_weights && problem.dst_channels % tile.dst_channels != 0) choice.tile = tile;
        });
        ASSERT_GT(choice.tile.clocks, 0) << line;
        const Emulated emulated(problem, choice);
        ASSERT_TRUE(emulated.compile()) << line;
        EXPECT_TRUE(emulated.execute()) << line << ": " << choice.name();
    }
}

/// Some of the problem file, each in another mode.
TEST(StreamEmulated, TakesTheProblemFile) {
    constexpr struct {
        DType dtype;
        MathMode math;
    } kModes[] = {{DType::f32, MathMode::tf32},
                  {DType::bf16, MathMode::full},
                  {DType::f16, MathMode::full},
                  {DType::f32, MathMode::full}};
    constexpr double kMostFlops = 2e7;
    const std::vector<Problem> problems = testing::listed_problems();
    size_t sample = 0;
    for (size_t i = 0; i < problems.size(); i += 3 * testing::sampled_every(), ++sample) {
        Problem problem = problems[i];
        problem.dtype = kModes[sample % std::size(kModes)].dtype;
        problem.math = kModes[sample % std::size(kModes)].math;
        problem.layout = sample / std::size(kModes) % 2 == 0 ? Layout::ncdhw : Layout::ndhwc;
        const bool small = problem.batch > 0 && problem.flops() < kMostFlops;
        if (!small || !reject_stream(problem, {}, kHopper).empty()) continue;
        const Emulated emulated(problem, kWgmma);
        ASSERT_TRUE(emulated.compile()) << problem.str();
        EXPECT_TRUE(emulated.execute()) << problem.str() << ": " << emulated.tile().name();
    }
}

INSTANTIATE_TEST_SUITE_P(All, StreamEmulatedCase, ::testing::ValuesIn(kCases));

} // namespace
} // namespace tconv3d::cuda
