// The streamed kernels: their tables against the definition, their tiles against the machine's limits, and that NVRTC
// compiles what selection can choose, without spills and without serialised wgmmas.
#include <algorithm>
#include <set>
#include <tuple>

#include "cuda/tensorcore/config.hpp"
#include "made_up_devices.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::listed_problems;
using testing::modes;
using testing::NvrtcTest;
using testing::read_problems;
using testing::sampled_every;
using testing::with;

const Device& device_for(StreamEngine engine) {
    return engine == StreamEngine::wgmma ? kHopper : kAmpere;
}

bool accepts(const Problem& problem, StreamEngine engine) {
    if (problem.batch == 0) return false;
    const auto reject = engine == StreamEngine::wgmma ? reject_stream : reject_mma;
    return reject(problem, {}, device_for(engine)).empty();
}

StreamChoice choice_of(const Problem& problem, StreamEngine engine) {
    return choose_stream(problem, device_for(engine), engine);
}

constexpr StreamRows kBothRows[] = {StreamRows::together, StreamRows::apart};

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
                const int64_t reach = static_cast<int64_t>(r) + problem.padding[0] - delta * problem.stride[0];
                const int64_t output = problem.stride[0] * (slice - delta) + static_cast<int64_t>(r);
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

/// Adds the taps that a pass serves, for outputs whose phase along h is `first_row` or follows it.
void expect_taps_of_pass(const Problem& problem, const StreamTables& tables, int64_t first_row, const StreamPass& pass,
                         std::set<std::pair<int64_t, int64_t>>& taps) {
    for (const StreamOffset& offset : tables.offsets)
        for (const StreamUse& use : offset.uses) {
            const int64_t tap_h = pass.tap_h + use.tap_h, delta_h = pass.delta_h + offset.delta_h;
            EXPECT_TRUE(taps.insert({tap_h, use.tap_w}).second) << problem.str();
            // Tap j adds to phase r at delta where stride · delta + j · dilation = r + padding.
            EXPECT_EQ(problem.stride[1] * delta_h + tap_h * problem.dilation[1],
                      first_row + use.phase / problem.stride[2] + problem.padding[1]);
            EXPECT_EQ(problem.stride[2] * offset.delta_w + use.tap_w * problem.dilation[2],
                      use.phase % problem.stride[2] + problem.padding[2]);
            EXPECT_GE(delta_h, tables.delta_min[1]) << problem.str();
            EXPECT_LE(delta_h, tables.delta_max[1]) << problem.str();
            EXPECT_GE(offset.delta_w, tables.delta_min[2]) << problem.str();
            EXPECT_LE(offset.delta_w, tables.delta_max[2]) << problem.str();
        }
}

TEST(StreamTables, OffsetsServeEveryTapOfThePlaneOnce) {
    for (const Problem& problem : listed_problems())
        for (const StreamRows rows : kBothRows) {
            const StreamTables tables(problem, rows);
            std::set<std::pair<int64_t, int64_t>> taps;
            for (size_t set = 0; set < tables.row_sets.size(); ++set) {
                const int64_t last =
                    set + 1 < tables.row_sets.size() ? tables.row_sets[set + 1].first_pass : tables.pass_count();
                for (int64_t pass = tables.row_sets[set].first_pass; pass < last; ++pass)
                    expect_taps_of_pass(problem, tables, tables.row_sets[set].phase,
                                        tables.passes[static_cast<size_t>(pass)], taps);
            }
            EXPECT_EQ(static_cast<int64_t>(taps.size()), problem.kernel[1] * problem.kernel[2]) << problem.str();
        }
}

void expect_runs_are_the_same_or_apart(const Problem& problem, const StreamTables& tables) {
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

TEST(StreamTables, RunsAreTheSameOrApart) {
    for (const Problem& problem : listed_problems())
        for (const StreamRows rows : kBothRows) expect_runs_are_the_same_or_apart(problem, StreamTables(problem, rows));
}

TEST(StreamTables, TapGroupsHoldEveryRunOnce) {
    for (const Problem& problem : listed_problems()) {
        const StreamTables tables(problem);
        for (int64_t groups = 1; groups <= tables.runs(); ++groups) {
            const std::vector<TapGroup>& begins = tables.tap_groups(groups);
            EXPECT_LE(static_cast<int64_t>(begins.size()) - 1, groups) << problem.str();
            EXPECT_EQ(begins.front().first_run, 0) << problem.str();
            EXPECT_EQ(begins.back().first_run, tables.runs()) << problem.str();
            EXPECT_EQ(begins.back().first_use, tables.uses()) << problem.str();
            for (size_t i = 1; i < begins.size(); ++i) {
                EXPECT_LT(begins[i - 1].first_run, begins[i].first_run) << problem.str() << ": an empty group";
                EXPECT_LT(begins[i - 1].first_use, begins[i].first_use) << problem.str();
            }
        }
    }
}

/// The greatest position that a row of the product stands for, counted as in schedule/shape.cuh.
int64_t last_row_position(const StreamTile& tile) {
    int64_t last = 0;
    for (int64_t m = 0; m < tile.m_tiles * tile.busy; ++m) {
        int64_t first = m * 64;
        if (tile.blocks_w > 0) {
            const int64_t blocks = tile.blocks_h * tile.blocks_w;
            if (m / blocks >= tile.images) break;
            first = (m / blocks * tile.rows + m % blocks / tile.blocks_w * 8) * tile.pitch + m % tile.blocks_w * 8;
        }
        last = std::max(last, first + 7 * tile.core_stride() + 7);
    }
    return last;
}

void expect_covers_its_voxels(const StreamTile& tile, const std::string& where) {
    if (tile.blocks_w > 0) {
        EXPECT_LE(tile.w, tile.blocks_w * 8) << where;
        EXPECT_LE(tile.h, tile.blocks_h * 8) << where;
        EXPECT_LE(tile.images * tile.blocks_h * tile.blocks_w, tile.m_tiles * tile.busy) << where;
    } else {
        EXPECT_LE(((tile.images - 1) * tile.rows + tile.h - 1) * tile.pitch + tile.w, tile.m_tiles * tile.busy * 64)
            << where;
    }
    EXPECT_GE(tile.busy, 1) << where;
    EXPECT_LE(tile.busy, kStreamConsumers) << where;
}

/// Counted as in schedule/shape.cuh: each slice of each item belongs to one CTA.
void expect_shares_are_all(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                           const std::string& where) {
    const StreamArgs args = stream_arguments(problem, tables, tile);
    EXPECT_EQ(args.whole_items % tile.ctas, 0) << where;
    EXPECT_EQ(args.whole_items * stream_depth(tables, tile) + args.rest,
              stream_items(problem, tables, tile) * stream_depth(tables, tile))
        << where;
    EXPECT_GE(tile.ctas * tile.share, args.rest) << where << ": slices are left over";
    const bool all_have_work = args.whole_items > 0 || (tile.ctas - 1) * tile.share < args.rest;
    EXPECT_TRUE(all_have_work) << where;
}

void expect_within_limits(const Problem& problem, StreamEngine engine) {
    const auto [tables, tile] = choice_of(problem, engine);
    const std::string where = problem.str() + ", " + tile.name();
    const int64_t columns = tables.slots * tile.dst_channels;
    const int64_t reach =
        (tables.delta_max[1] - tables.delta_min[1]) * tile.pitch + tables.delta_max[2] - tables.delta_min[2];
    EXPECT_GT(tile.clocks, 0) << where;
    EXPECT_LE(tile.shared_bytes, device_for(engine).shared_memory_per_block) << where;
    EXPECT_LE(columns * tables.longest_run(), 256) << where;
    EXPECT_EQ(columns % 8, 0) << where;
    EXPECT_EQ(tile.steps % tile.summed_steps, 0) << where;
    EXPECT_GE(tile.pitch, tile.w + tables.delta_max[2] - tables.delta_min[2]) << where;
    EXPECT_GE(tile.rows, tile.h + tables.delta_max[1] - tables.delta_min[1]) << where;
    EXPECT_LE(std::max({tile.pitch, tile.rows, tile.raw_pitch, tile.images}), 256) << where << ": no TMA box";
    EXPECT_EQ(tile.raw_pitch * bytes_per_element(problem.dtype) % 16, 0) << where;
    EXPECT_GE(tile.positions, last_row_position(tile) + reach + 1) << where << ": reads past its plane";
    expect_shares_are_all(problem, tables, tile, where);
    expect_covers_its_voxels(tile, where);
}

TEST(StreamTile, HasCandidatesWithNamesOfTheirOwn) {
    const Problem problem = Problem::parse("n16 ci64 co128 24x48x48 k3 s2 p1 bf16");
    const std::vector<StreamChoice> candidates = stream_candidates(problem, kHopper, StreamEngine::wgmma);
    ASSERT_EQ(candidates.size(), kStreamCandidates);
    EXPECT_EQ(candidates.front().name(), choose_stream(problem, kHopper, StreamEngine::wgmma).name());
    std::set<std::string> names;
    double before = 0;
    for (const StreamChoice& candidate : candidates) {
        EXPECT_TRUE(names.insert(candidate.name()).second) << candidate.name();
        EXPECT_GE(candidate.tile.clocks, before) << candidate.name();
        before = candidate.tile.clocks;
        const StreamChoice found =
            find_stream(problem, kHopper, StreamEngine::wgmma, StreamForm::scatter, candidate.name());
        EXPECT_EQ(found.tile.clocks, candidate.tile.clocks) << candidate.name();
    }
    EXPECT_THROW(find_stream(problem, kHopper, StreamEngine::wgmma, StreamForm::scatter, "no such tile"), Error);
}

/// What is remembered of the last choice serves no other problem and no other GPU.
TEST(StreamTile, IsChosenForTheProblemAndTheGpuAtHand) {
    Problem problem = Problem::parse("n16 ci64 co128 24x48x48 k3 s2 p1 f32");
    Device small = kHopper;
    small.multiprocessors = 2;
    const auto clocks = [&](const Device& device) {
        return choose_stream(problem, device, StreamEngine::wgmma).tile.clocks;
    };
    const double full = clocks(kHopper);
    EXPECT_EQ(clocks(kHopper), full);
    EXPECT_GT(clocks(small), 10 * full);
    problem.math = MathMode::tf32;
    EXPECT_LT(clocks(kHopper), full);
    problem.math = MathMode::full;
    EXPECT_EQ(clocks(kHopper), full);
}

TEST(StreamTile, StaysWithinTheMachine) {
    for (const char* file : {"baselines.txt", "correctness.txt"})
        for (const Problem& listed : read_problems(file))
            for (const Problem& problem : modes(listed))
                for (const StreamEngine engine : {StreamEngine::wgmma, StreamEngine::mma})
                    if (accepts(problem, engine)) expect_within_limits(problem, engine);
}

TEST(StreamTile, PackedWeightsOfTheBaselinesStayWithin16MiB) {
    for (const Problem& listed : read_problems("baselines.txt")) {
        for (const Problem& problem : modes(listed)) {
            if (!accepts(problem, StreamEngine::wgmma)) continue;
            const auto [tables, tile] = choice_of(problem, StreamEngine::wgmma);
            EXPECT_LE(stream_packed_words(problem, tables, tile) * 4, int64_t{16} << 20) << problem.str();
        }
    }
}

TEST(StreamTile, IsChosenForNoImagesToo) {
    for (const Problem& listed : read_problems("correctness.txt")) {
        Problem problem = with(listed, DType::bf16, MathMode::full, Layout::ncdhw);
        problem.batch = 0;
        if (!reject_stream(problem, {}, kHopper).empty()) continue;
        const auto [tables, tile] = choice_of(problem, StreamEngine::wgmma);
        EXPECT_EQ(stream_items(problem, tables, tile), 0) << problem.str();
        EXPECT_EQ(tile.ctas, 1) << problem.str() << ", " << tile.name();
    }
}

TEST(StreamTile, RejectionsNameTheValues) {
    const auto reason = [](const char* line, const Device& device) {
        return reject_stream(Problem::parse(line), {}, device);
    };
    EXPECT_NE(reason("ci1 co1 1x1x1 k1 s2000000000 tf32", kHopper).find("at most 64 phases"), std::string::npos);
    EXPECT_NE(reason("ci2 co8 4x4x8 k3 f32", kHopper).find("fewer than 64 products, got 54"), std::string::npos);
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 f32", kHopper), "");
    EXPECT_NE(reason("ci1 co64 1x8192x8192 k1 tf32 ndhwc", kHopper).find("fewer than 2^31 outputs"), std::string::npos);
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 tf32", kHopper), "");
    EXPECT_EQ(reason("ci8 co8 4x4x7 k3 bf16", kHopper), "");
    EXPECT_EQ(reason("ci12 co8 4x4x8 k3 g4 f16 ndhwc", kHopper), "");
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 f64", kHopper).find("f64"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 s5", kHopper).find("stride 5"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 tf32", kAmpere).find("8.0"), std::string::npos);
    EXPECT_EQ(reject_mma(Problem::parse("ci8 co8 4x4x8 k3 tf32"), {}, kAmpere), "");
    Device turing = kAmpere;
    turing.sm = 75;
    EXPECT_NE(reject_mma(Problem::parse("ci8 co8 4x4x8 k3 tf32"), {}, turing).find("7.5"), std::string::npos);
}

void expect_compiles(const Problem& problem, StreamEngine engine, bool has_bias) {
    const auto [tables, tile] = choice_of(problem, engine);
    const int sm = device_for(engine).sm;
    const Compiled kernel = compile_for(sm, stream_request(problem, tables, tile, {}, has_bias, false));
    testing::expect_fits(kernel, problem, engine, problem.str() + ", " + tile.name());
    EXPECT_EQ(
        compile_for(sm, stream_pack_request(problem, tables, tile, stream_pack(problem, tile, device_for(engine))))
            .spill_bytes,
        0)
        << problem.str();
}

class StreamCompile : public NvrtcTest {
protected:
    /// Every `step`-th mode of the problems, the first one another for each problem.
    static void expect_all_compile(const std::vector<Problem>& problems, StreamEngine engine, size_t step) {
        size_t index = 0;
        for (const Problem& listed : problems)
            for (const Problem& problem : modes(listed))
                if (index++ % step == 0 && accepts(problem, engine))
                    expect_compiles(problem, engine, index / step % 2 == 0);
    }
};

// The baselines' are compiled in cuda_chosen_test.cpp.
TEST_F(StreamCompile, TakesTheProblemFile) {
    expect_all_compile(listed_problems(), StreamEngine::wgmma, 7 * sampled_every());
    expect_all_compile(listed_problems(), StreamEngine::mma, 11 * sampled_every());
}

} // namespace
} // namespace tconv3d::cuda
