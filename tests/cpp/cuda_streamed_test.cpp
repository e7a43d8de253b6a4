// The configs of the streamed form against the machine's limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/families.hpp"
#include "cuda/tensorcore/pack.hpp"
#include "cuda/tensorcore/source.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::listed_problems;
using testing::modes;
using testing::read_problems;
using testing::with;

const Device& device_for(Engine engine) {
    return engine == Engine::wgmma ? kHopper : kAmpere;
}

bool accepts(const Problem& problem, Engine engine) {
    if (problem.batch == 0) return false;
    const auto answer = engine == Engine::wgmma ? answer_streamed : answer_mma;
    return answer({problem, {}, device_for(engine)}).accepts();
}

Tiling tiling_of(const Problem& problem, Engine engine) {
    return best_tilings(problem, device_for(engine), engine, Form::streamed, 1).front();
}

/// The greatest position that a row of the product stands for, counted as in schedule/positions.cuh.
int64_t last_row_position(const Config& config) {
    int64_t last = 0;
    for (int64_t m = 0; m < config.products.m_tiles * config.products.warpgroups; ++m) {
        int64_t first = m * 64;
        if (config.plane.blocks_w > 0) {
            const int64_t blocks = config.plane.blocks_h * config.plane.blocks_w;
            if (m / blocks >= config.tile.images) break;
            first = (m / blocks * config.plane.rows + m % blocks / config.plane.blocks_w * 8) * config.plane.pitch +
                    m % config.plane.blocks_w * 8;
        }
        last = std::max(last, first + 7 * config.core_stride() + 7);
    }
    return last;
}

void expect_covers_its_voxels(const Config& config, const std::string& where) {
    if (config.plane.blocks_w > 0) {
        EXPECT_LE(config.tile.w, config.plane.blocks_w * 8) << where;
        EXPECT_LE(config.tile.h, config.plane.blocks_h * 8) << where;
        EXPECT_LE(config.tile.images * config.plane.blocks_h * config.plane.blocks_w,
                  config.products.m_tiles * config.products.warpgroups)
            << where;
    } else {
        EXPECT_LE(((config.tile.images - 1) * config.plane.rows + config.tile.h - 1) * config.plane.pitch +
                      config.tile.w,
                  config.products.m_tiles * config.products.warpgroups * 64)
            << where;
    }
    EXPECT_GE(config.products.warpgroups, 1) << where;
    EXPECT_LE(config.products.warpgroups, kConsumers) << where;
}

/// Counted as in schedule/items.cuh: each slice of each item belongs to one CTA.
void expect_shares_are_all(const Problem& problem, const TapTables& tables, const Config& config,
                           const std::string& where) {
    const TensorCoreArguments args = kernel_arguments(problem, tables, config);
    EXPECT_EQ(args.shares.whole_items % config.schedule.ctas, 0) << where;
    EXPECT_EQ(args.shares.whole_items * item_depth(tables, config) + args.shares.rest,
              item_count(problem, tables, config) * item_depth(tables, config))
        << where;
    EXPECT_GE(config.schedule.ctas * config.schedule.share, args.shares.rest) << where << ": slices are left over";
    const bool all_have_work =
        args.shares.whole_items > 0 || (config.schedule.ctas - 1) * config.schedule.share < args.shares.rest;
    EXPECT_TRUE(all_have_work) << where;
}

void expect_within_limits(const Problem& problem, Engine engine) {
    const auto [tables, config] = tiling_of(problem, engine);
    const std::string where = problem.str() + ", " + config.name();
    const int64_t columns = tables.depth.slots * config.tile.channels;
    const int64_t reach =
        (tables.shift_max[1] - tables.shift_min[1]) * config.plane.pitch + tables.shift_max[2] - tables.shift_min[2];
    EXPECT_GT(config.schedule.clocks, 0) << where;
    EXPECT_LE(config.pipeline.shared_bytes, device_for(engine).shared_memory_per_block) << where;
    EXPECT_LE(columns * tables.plane.longest_product(), 256) << where;
    EXPECT_EQ(columns % 8, 0) << where;
    EXPECT_EQ(config.input.steps % config.products.summed_steps, 0) << where;
    EXPECT_GE(config.plane.pitch, config.tile.w + tables.shift_max[2] - tables.shift_min[2]) << where;
    EXPECT_GE(config.plane.rows, config.tile.h + tables.shift_max[1] - tables.shift_min[1]) << where;
    const int64_t raw_pitch = config.input.has_map() ? config.input.raw_pitch : 0;
    EXPECT_LE(std::max({config.plane.pitch, config.plane.rows, raw_pitch, config.tile.images}), 256)
        << where << ": no TMA box";
    EXPECT_EQ(config.input.raw_pitch * bytes_per_element(problem.dtype) % 16, 0) << where;
    EXPECT_GE(config.plane.positions, last_row_position(config) + reach + 1) << where << ": reads past its plane";
    expect_shares_are_all(problem, tables, config, where);
    expect_covers_its_voxels(config, where);
}

TEST(StreamedConfig, HasCandidatesWithNamesOfTheirOwn) {
    const Problem problem = Problem::parse("n16 ci64 co128 24x48x48 k3 s2 p1 bf16");
    const Answer all = answer_streamed({problem, {}, kHopper, kMostCandidates});
    ASSERT_EQ(all.candidates.size(), kMostCandidates);
    EXPECT_EQ(all.candidates.front().name, tiling_of(problem, Engine::wgmma).name());
    std::set<std::string> names;
    double before = 0;
    for (const KernelCandidate& candidate : all.candidates) {
        EXPECT_TRUE(names.insert(candidate.name).second) << candidate.name;
        EXPECT_GE(candidate.microseconds, before) << candidate.name;
        before = candidate.microseconds;
        EXPECT_NE(candidate.prepare()->describe().find(candidate.name), std::string::npos) << candidate.name;
    }
}

TEST(StreamedConfig, StaysWithinTheMachine) {
    for (const char* file : {"baselines.txt", "correctness.txt"})
        for (const Problem& listed : read_problems(file))
            for (const Problem& problem : modes(listed))
                for (const Engine engine : {Engine::wgmma, Engine::mma})
                    if (accepts(problem, engine)) expect_within_limits(problem, engine);
}

TEST(StreamedConfig, PackedWeightsOfTheBaselinesStayWithin16MiB) {
    for (const Problem& listed : read_problems("baselines.txt")) {
        for (const Problem& problem : modes(listed)) {
            if (!accepts(problem, Engine::wgmma)) continue;
            const auto [tables, config] = tiling_of(problem, Engine::wgmma);
            EXPECT_LE(packed_words(problem, tables, config) * 4, int64_t{16} << 20) << problem.str();
        }
    }
}

TEST(StreamedConfig, IsChosenForNoImagesToo) {
    for (const Problem& listed : read_problems("correctness.txt")) {
        Problem problem = with(listed, DType::bf16, MathMode::full, Layout::ncdhw);
        problem.batch = 0;
        if (!answer_streamed({problem, {}, kHopper}).accepts()) continue;
        const auto [tables, config] = tiling_of(problem, Engine::wgmma);
        EXPECT_EQ(item_count(problem, tables, config), 0) << problem.str();
        EXPECT_EQ(config.schedule.ctas, 1) << problem.str() << ", " << config.name();
    }
}

TEST(Schedule, TellsWhatEachCtaGets) {
    EXPECT_EQ((Schedule{4, 0, 0, 17550}).str(), "4 CTAs take nothing, about 10 us");
    EXPECT_EQ((Schedule{4, 0, 5, 17550}).str(), "4 CTAs take 5 slices each, about 10 us");
    EXPECT_EQ((Schedule{4, 8, 5, 17550}).str(), "4 CTAs take 2 items and 5 slices each, about 10 us");
    EXPECT_EQ((Schedule{4, 9, 0, 17550}).str(), "4 CTAs take up to 3 items each, about 10 us");
}

TEST(StreamedConfig, RejectionsNameTheValues) {
    const auto reason = [](const char* line, const Device& device) {
        return answer_streamed({Problem::parse(line), {}, device}).reason;
    };
    const auto mma_reason = [](const char* line, const Device& device) {
        return answer_mma({Problem::parse(line), {}, device}).reason;
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
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 tf32 bwd_data", kHopper), "");
    EXPECT_NE(
        reason("ci8 co8 1x1x400000001 k3 s3 p0x0x600000000 tf32 bwd_data", kHopper).find("fewer than 2^30 voxels"),
        std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 tf32 bwd_weight", kHopper).find("got bwd_weight"), std::string::npos);
    EXPECT_NE(
        reason("n8 ci128 co128 100000000x1x1 k3x1x1 g16 bf16", kHopper).find("2^30 slices that CTAs share, got 1280"),
        std::string::npos);
    EXPECT_EQ(reason("n8 ci128 co128 5000000x1x1 k3x1x1 g16 bf16", kHopper), "");
    EXPECT_NE(reason("ci16 co4194304 2x2x2 k8 bf16", kHopper).find("2^31 weights of an input channel, got 2147483648"),
              std::string::npos);
    EXPECT_EQ(mma_reason("ci8 co8 4x4x8 k3 tf32", kAmpere), "");
    Device turing = kAmpere;
    turing.sm = 75;
    EXPECT_NE(mma_reason("ci8 co8 4x4x8 k3 tf32", turing).find("7.5"), std::string::npos);
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
