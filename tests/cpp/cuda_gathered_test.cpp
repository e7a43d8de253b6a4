// The configs of the gathered form against the machine's limits and against what they read.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/tensorcore/choice.hpp"
#include "cuda/tensorcore/families.hpp"
#include "cuda/tensorcore/gathered/tiles.hpp"
#include "cuda/tensorcore/source.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda::tensorcore {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::read_problems;

/// The ways to multiply and lay out a problem that it takes.
std::vector<Problem> gathered_modes(const Problem& listed) {
    std::vector<Problem> list;
    for (const Problem& problem : testing::modes(listed))
        if (problem.batch > 0 && answer_gathered({problem, {}, kHopper}).accepts()) list.push_back(problem);
    return list;
}

/// Where the output of a voxel of the tile is summed: counted as in schedule/positions.cuh, in columns through all
/// products.
int64_t column_of(const Config& config, int64_t image, int64_t row, int64_t column) {
    if (config.plane.interleaved) return (row * config.tile.images + image) * 8 + column;
    return (image * config.plane.rows + row) * config.plane.pitch + column;
}

/// Every read beside src finds zeros: in the row itself, or left of the next one.
void expect_reads_zeros(const Problem& problem, const TapTables& tables, const Config& config,
                        const std::string& where) {
    const bool whole_rows = config.tile.w >= tables.q_count[2];
    for (int64_t q = 0; q < std::min(config.tile.w, tables.q_count[2]); ++q) {
        for (int64_t shift = tables.shift_min[2]; shift <= tables.shift_max[2]; ++shift) {
            const int64_t place = q + shift - tables.shift_min[2], src = q + shift;
            if (place < config.plane.pitch) continue;
            EXPECT_TRUE(whole_rows && config.plane.tail > 0) << where;
            EXPECT_GE(src, problem.src[2]) << where << ": a voxel of src is cut off";
            EXPECT_LT(place - config.plane.pitch, config.plane.tail) << where << ": reads the next row";
        }
    }
}

/// Rows are multiples of a lane's vector, or have room in shared memory: whole vectors, which are aligned there.
void expect_rows_stored(const Problem& problem, const Config& config, const std::string& where) {
    if (problem.channels_last()) return;
    const int64_t stride = problem.stride[2];
    if (config.store.way == Store::bulk_rows) {
        const int64_t row = problem.dst()[2] * bytes_per_element(problem.dtype);
        EXPECT_GE(row, 32) << where << ": no aligned vector between the ends";
        EXPECT_GE(config.store.channel_bytes, 15 + config.tile.h * problem.stride[1] * row + 14)
            << where << ": loads another channel";
        EXPECT_EQ(config.store.channel_bytes % 16, 0) << where;
    } else if (config.store.passes_shared_memory()) {
        const int64_t positions = config.tile.w + config.tile.w % 2;
        EXPECT_GE(config.store.channel_bytes, positions * stride * bytes_per_element(problem.dtype)) << where;
        EXPECT_EQ(config.store.channel_bytes % 16, 0) << where;
        EXPECT_EQ(config.tile.images, 1) << where;
    } else {
        EXPECT_EQ(problem.dst()[2] % (2 * stride), 0) << where;
    }
}

void expect_within_limits(const Problem& problem, const TapTables& tables, const Config& config) {
    const std::string where = problem.str() + ", " + config.name();
    const int64_t columns = config.products.m_tiles * config.products.columns, halo_h = tables.halo(1),
                  halo_w = tables.halo(2);
    EXPECT_GT(config.schedule.clocks, 0) << where;
    EXPECT_LE(config.pipeline.shared_bytes, kHopper.shared_memory_per_block) << where;
    EXPECT_LE(config.products.columns, 256) << where;
    EXPECT_EQ(config.products.columns % 8, 0) << where;
    EXPECT_LT(column_of(config, config.tile.images - 1, config.tile.h - 1, config.tile.w - 1), columns) << where;
    const int64_t last = (columns / 8 - 1) * config.core_stride() + 7;
    EXPECT_GT(config.plane.positions, last + halo_h * config.row_pitch() + halo_w) << where << ": reads past its plane";
    EXPECT_GE(config.plane.positions, config.tile.images * config.plane.rows * config.plane.pitch + config.plane.tail)
        << where;
    const int64_t raw_pitch = config.input.has_map() ? config.input.raw_pitch : 0;
    EXPECT_LE(std::max({config.plane.pitch, config.plane.rows, raw_pitch, config.tile.images}), 256)
        << where << ": no TMA box";
    EXPECT_GE(config.input.box_rows * config.input.boxes,
              config.input.source == Source::whole_rows ? config.plane.rows : 0)
        << where;
    expect_reads_zeros(problem, tables, config, where);
    expect_rows_stored(problem, config, where);
    if (config.pipeline.retains_slices) {
        EXPECT_GE(config.pipeline.stages, (tables.halo(0) + 1) * chunks(problem, config))
            << where << ": a step waits for ever";
        EXPECT_LE(config.pipeline.stages, 16) << where << ": no room for barriers";
    }
    const TensorCoreArguments args = kernel_arguments(problem, tables, config);
    const int64_t depth = item_depth(tables, config);
    EXPECT_EQ(args.shares.whole_items * depth + args.shares.rest, item_count(problem, tables, config) * depth) << where;
    EXPECT_GE(config.schedule.ctas * config.schedule.share, args.shares.rest) << where << ": steps are left over";
    EXPECT_EQ(config.store.way == Store::seamed_rows || config.store.way == Store::bulk_rows
                  ? config.schedule.share % problem.stride[1]
                  : 0,
              0)
        << where << ": rows that meet are of two CTAs";
    EXPECT_LE(config.schedule.ctas, kHopper.multiprocessors) << where;
    const bool all_have_work = args.shares.whole_items >= config.schedule.ctas ||
                               (config.schedule.ctas - 1) * config.schedule.share < args.shares.rest;
    EXPECT_TRUE(all_have_work) << where << ": a CTA has none";
}

TEST(GatheredConfig, StaysWithinTheMachine) {
    for (const char* file : {"baselines.txt", "correctness.txt"})
        for (const Problem& listed : read_problems(file))
            for (const Problem& problem : gathered_modes(listed)) {
                const TapTables tables =
                    best_tilings(problem, kHopper, Engine::wgmma, Form::gathered, 1).front().tables;
                each_gathered_config(problem, tables, kHopper,
                                     [&](const Config& config) { expect_within_limits(problem, tables, config); });
            }
}

TEST(GatheredConfig, RejectionsNameTheValues) {
    const auto reason = [](const char* line, const Device& device) {
        return answer_gathered({Problem::parse(line), {}, device}).reason;
    };
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 tf32", kHopper), "");
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 f32", kHopper).find("f32 in full"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 s3 bf16", kHopper).find("stride 3"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3x1x4 s2 p0x0x1 bf16", kHopper).find("kernel 3x1x4"), std::string::npos);
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 s2 p1 bf16", kHopper), "");
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 tf32", kAmpere).find("8.0"), std::string::npos);
}

/// Large planes and many channels: what it is made for.
TEST(GatheredConfig, IsChosenForManyChannels) {
    const auto cheaper = [](const char* line) {
        const Problem problem = Problem::parse(line);
        const auto cost = [&](auto answer) {
            return answer({problem, {}, kHopper, 1}).candidates.front().microseconds;
        };
        return cost(answer_gathered) < cost(answer_streamed);
    };
    EXPECT_TRUE(cheaper("n16 ci64 co128 16x32x32 k5 tf32"));
    EXPECT_TRUE(cheaper("n16 ci256 co128 8x8x8 k4 s2 p1 bf16"));
    EXPECT_TRUE(cheaper("n16 ci32 co64 32x32x32 k5 s2 p2 tf32"));
    EXPECT_FALSE(cheaper("n8 ci48 co24 96x96x96 k3 tf32"));
    EXPECT_FALSE(cheaper("n32 ci32 co64 16x32x32 k3 s2 p1 op1 bf16"));
}

} // namespace
} // namespace tconv3d::cuda::tensorcore
