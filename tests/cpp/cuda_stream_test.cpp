// The streamed family: its tables against the definition, its tiles against the machine's limits, and that NVRTC
// compiles what selection can choose, without spills and without serialised wgmmas.
#include <algorithm>
#include <set>
#include <tuple>

#include "cuda/stream.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::listed_problems;
using testing::NvrtcTest;
using testing::read_problems;
using testing::sampled_every;

const Device kHopper = {0, "made up", 90, 132, 232448, 233472, 62914560};

Problem in_tf32(Problem problem) {
    problem.math = MathMode::tf32;
    return problem;
}

std::vector<Problem> accepted(const std::vector<Problem>& problems) {
    std::vector<Problem> list;
    for (const Problem& problem : problems)
        if (problem.batch > 0 && reject_stream(in_tf32(problem), {}, kHopper).empty()) list.push_back(in_tf32(problem));
    return list;
}

StreamTile tile_of(const Problem& problem, const StreamTables& tables) {
    return choose_stream_tile(problem, tables, kHopper.multiprocessors, kHopper.shared_memory_per_block);
}

/// (output, tap, slice) along D, from the definition.
std::set<std::tuple<int64_t, int64_t, int64_t>> meetings(const Problem& problem) {
    std::set<std::tuple<int64_t, int64_t, int64_t>> found;
    for (int64_t slice = 0; slice < problem.src[0]; ++slice)
        for (int64_t tap = 0; tap < problem.kernel[0]; ++tap) {
            const int64_t output = problem.stride[0] * slice - problem.padding[0] + tap * problem.dilation[0];
            if (output >= 0 && output < problem.dst()[0]) found.insert({output, tap, slice});
        }
    return found;
}

/// The same from the rings: in each slice, every slot takes the one delta that is congruent to slice - slot.
std::set<std::tuple<int64_t, int64_t, int64_t>> meetings_of_rings(const Problem& problem, const StreamTables& tables) {
    std::set<std::tuple<int64_t, int64_t, int64_t>> found;
    for (int64_t slice = 0; slice < problem.src[0]; ++slice)
        for (size_t r = 0; r < tables.rings.size(); ++r)
            for (int64_t slot = 0; slot < tables.rings[r].length; ++slot) {
                const Ring& ring = tables.rings[r];
                int64_t delta = ring.delta_max;
                while (floor_div(slice - delta, ring.length) * ring.length + slot != slice - delta) --delta;
                EXPECT_GE(delta, ring.delta_min) << problem.str();
                const int64_t reach = static_cast<int64_t>(r) - delta * problem.stride[0];
                const int64_t output =
                    problem.stride[0] * (slice - delta) + static_cast<int64_t>(r) - problem.padding[0];
                if (reach % problem.dilation[0] != 0 || reach / problem.dilation[0] >= problem.kernel[0]) continue;
                if (output < 0 || output >= problem.dst()[0]) continue;
                EXPECT_TRUE(found.insert({output, reach / problem.dilation[0], slice}).second) << problem.str();
            }
    return found;
}

TEST(StreamTables, RingsMeetEveryTapAlongD) {
    for (const Problem& problem : listed_problems())
        EXPECT_EQ(meetings_of_rings(problem, StreamTables(problem)), meetings(problem)) << problem.str();
}

TEST(StreamTables, OffsetsServeEveryTapOfThePlaneOnce) {
    for (const Problem& problem : listed_problems()) {
        std::set<std::pair<int64_t, int64_t>> taps;
        for (const StreamOffset& offset : StreamTables(problem).offsets)
            for (const StreamUse& use : offset.uses) {
                EXPECT_TRUE(taps.insert({use.tap_h, use.tap_w}).second) << problem.str();
                // Tap j adds to phase r at delta where stride · delta + j · dilation = r.
                EXPECT_EQ(problem.stride[1] * offset.delta_h + use.tap_h * problem.dilation[1],
                          use.phase / problem.stride[2]);
                EXPECT_EQ(problem.stride[2] * offset.delta_w + use.tap_w * problem.dilation[2],
                          use.phase % problem.stride[2]);
            }
        EXPECT_EQ(static_cast<int64_t>(taps.size()), problem.kernel[1] * problem.kernel[2]) << problem.str();
    }
}

TEST(StreamTables, RunsAreTheSameOrApart) {
    for (const Problem& problem : listed_problems()) {
        const StreamTables tables(problem);
        std::set<std::pair<int64_t, int64_t>> runs;
        for (const StreamOffset& offset : tables.offsets) {
            size_t use = 0;
            for (const StreamRun& run : offset.runs) {
                runs.insert({run.first, run.first + run.count});
                for (int64_t i = 0; i < run.count; ++i, ++use)
                    EXPECT_EQ(tables.accumulator[static_cast<size_t>(offset.uses.at(use).phase)], run.first + i);
            }
            EXPECT_EQ(use, offset.uses.size()) << problem.str();
        }
        int64_t end = 0;
        for (const auto& [first, last] : runs) {
            EXPECT_EQ(first, end) << problem.str() << ": runs overlap in part";
            end = last;
        }
        EXPECT_EQ(end, tables.accumulators) << problem.str();
    }
}

void expect_within_limits(const Problem& problem) {
    const StreamTables tables(problem);
    const StreamTile tile = tile_of(problem, tables);
    const int64_t columns = tables.slots * tile.dst_channels;
    EXPECT_GT(tile.clocks, 0) << problem.str();
    EXPECT_LE(tile.shared_bytes, kHopper.shared_memory_per_block) << problem.str();
    EXPECT_LE(tile.h * tile.w, tile.m_tiles * 64 * kStreamConsumers) << problem.str();
    EXPECT_LE(columns * tables.longest_run(), 256) << problem.str();
    EXPECT_EQ(columns % 8, 0) << problem.str();
    EXPECT_EQ(tile.plane_rows * tile.plane_pitch % 16, 8) << problem.str() << ": lanes share banks";
    EXPECT_GE(tile.segments * tile.segment_length, tables.q_end[0] - tables.q_begin[0]) << problem.str();
}

TEST(StreamTile, StaysWithinTheMachine) {
    for (const Problem& problem : accepted(read_problems("baselines.txt"))) expect_within_limits(problem);
    for (const Problem& problem : accepted(listed_problems())) expect_within_limits(problem);
}

TEST(StreamTile, RejectionsNameTheValues) {
    const auto reason = [](const char* line) { return reject_stream(Problem::parse(line), {}, kHopper); };
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 tf32"), "");
    EXPECT_NE(reason("ci8 co8 4x4x7 k3 tf32").find("28"), std::string::npos);
    EXPECT_NE(reason("ci12 co8 4x4x8 k3 g4 tf32").find("3"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 bf16").find("bf16"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 tf32 ndhwc").find("ndhwc"), std::string::npos);
    Device ampere = kHopper;
    ampere.sm = 80;
    EXPECT_NE(reject_stream(Problem::parse("ci8 co8 4x4x8 k3 tf32"), {}, ampere).find("8.0"), std::string::npos);
}

void expect_compiles(const Problem& problem) {
    const StreamTables tables(problem);
    const StreamTile tile = tile_of(problem, tables);
    const Compiled kernel = compile_for(90, stream_request(problem, tables, tile, {}, true, false));
    EXPECT_EQ(kernel.spill_bytes, 0) << problem.str() << ", " << tile.str();
    EXPECT_EQ(kernel.log.find("serialized"), std::string::npos) << problem.str() << "\n" << kernel.log;
    EXPECT_EQ(compile_for(90, stream_pack_request(problem, tables, tile)).spill_bytes, 0) << problem.str();
}

class StreamCompile : public NvrtcTest {};

TEST_F(StreamCompile, TakesTheBaselines) {
    for (const Problem& problem : accepted(read_problems("baselines.txt"))) expect_compiles(problem);
}

TEST_F(StreamCompile, TakesTheProblemFile) {
    const std::vector<Problem> problems = accepted(listed_problems());
    for (size_t i = 0; i < problems.size(); i += sampled_every()) expect_compiles(problems[i]);
}

} // namespace
} // namespace tconv3d::cuda
