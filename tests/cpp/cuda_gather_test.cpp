// The kernel that gathers along D: its tiles against the machine's limits and against what they read, and that NVRTC
// compiles what selection can choose, without spills and without serialised wgmmas.
#include <algorithm>

#include "cuda/tensorcore/config.hpp"
#include "made_up_devices.hpp"
#include "nvrtc_test.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::kAmpere;
using testing::kHopper;
using testing::read_problems;
using testing::sampled_every;

/// The ways to multiply and lay out a problem that it takes.
std::vector<Problem> gathered_modes(const Problem& listed) {
    std::vector<Problem> list;
    for (const Problem& problem : testing::modes(listed))
        if (problem.batch > 0 && reject_gather(problem, {}, kHopper).empty()) list.push_back(problem);
    return list;
}

/// Where the output of a voxel of the tile is summed: counted as in schedule/shape.cuh, in columns through all products.
int64_t column_of(const StreamTile& tile, int64_t image, int64_t row, int64_t column) {
    if (tile.interleaved) return (row * tile.images + image) * 8 + column;
    return (image * tile.rows + row) * tile.pitch + column;
}

/// Every read beside src finds zeros: in the row itself, or left of the next one.
void expect_reads_zeros(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                        const std::string& where) {
    const bool whole_rows = tile.w >= tables.q_end[2];
    for (int64_t q = 0; q < std::min(tile.w, tables.q_end[2]); ++q) {
        for (int64_t delta = tables.delta_min[2]; delta <= tables.delta_max[2]; ++delta) {
            const int64_t place = q + delta - tables.delta_min[2], src = q + delta;
            if (place < tile.pitch) continue;
            EXPECT_TRUE(whole_rows && tile.tail > 0) << where;
            EXPECT_GE(src, problem.src[2]) << where << ": a voxel of src is cut off";
            EXPECT_LT(place - tile.pitch, tile.tail) << where << ": reads the next row";
        }
    }
}

/// Rows are multiples of a lane's vector, or have room in shared memory: whole vectors, which are aligned there.
void expect_rows_stored(const Problem& problem, const StreamTile& tile, const std::string& where) {
    if (problem.channels_last()) return;
    const int64_t stride = problem.stride[2];
    if (tile.pieces) {
        const int64_t row = problem.dst()[2] * bytes_per_element(problem.dtype);
        EXPECT_GE(row, 32) << where << ": no aligned vector between the ends";
        EXPECT_GE(tile.staged_bytes, 15 + tile.h * problem.stride[1] * row + 14) << where << ": loads another channel";
        EXPECT_EQ(tile.staged_bytes % 16, 0) << where;
    } else if (tile.store == StreamStore::staged) {
        const int64_t positions = tile.w + tile.w % 2;
        EXPECT_GE(tile.staged_bytes, positions * stride * bytes_per_element(problem.dtype)) << where;
        EXPECT_EQ(tile.staged_bytes % 16, 0) << where;
        EXPECT_EQ(tile.images, 1) << where;
    } else {
        EXPECT_EQ(problem.dst()[2] % (2 * stride), 0) << where;
    }
}

void expect_within_limits(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const std::string where = problem.str() + ", " + tile.name();
    const int64_t columns = tile.m_tiles * tile.columns, halo_h = tables.halo(1), halo_w = tables.halo(2);
    EXPECT_GT(tile.clocks, 0) << where;
    EXPECT_LE(tile.shared_bytes, kHopper.shared_memory_per_block) << where;
    EXPECT_LE(tile.columns, 256) << where;
    EXPECT_EQ(tile.columns % 8, 0) << where;
    EXPECT_LT(column_of(tile, tile.images - 1, tile.h - 1, tile.w - 1), columns) << where;
    const int64_t last = (columns / 8 - 1) * tile.core_stride() + 7;
    EXPECT_GT(tile.positions, last + halo_h * tile.row_pitch() + halo_w) << where << ": reads past its plane";
    EXPECT_GE(tile.positions, tile.images * tile.rows * tile.pitch + tile.tail) << where;
    EXPECT_LE(std::max({tile.pitch, tile.rows, tile.raw_pitch, tile.images}), 256) << where << ": no TMA box";
    EXPECT_GE(tile.run_rows * tile.run_boxes, tile.source == StreamSource::runs ? tile.rows : 0) << where;
    expect_reads_zeros(problem, tables, tile, where);
    expect_rows_stored(problem, tile, where);
    if (tile.keeps) {
        EXPECT_GE(tile.stages, (tables.halo(0) + 1) * stream_chunks(problem, tile))
            << where << ": a step waits for ever";
        EXPECT_LE(tile.stages, 16) << where << ": no room for barriers";
    }
    const StreamArgs args = stream_arguments(problem, tables, tile);
    const int64_t depth = stream_depth(tables, tile);
    EXPECT_EQ(args.whole_items * depth + args.rest, stream_items(problem, tables, tile) * depth) << where;
    EXPECT_GE(tile.ctas * tile.share, args.rest) << where << ": steps are left over";
    EXPECT_EQ(tile.seams || tile.pieces ? tile.share % problem.stride[1] : 0, 0)
        << where << ": rows that meet are of two CTAs";
    EXPECT_LE(tile.ctas, kHopper.multiprocessors) << where;
    const bool all_have_work = args.whole_items >= tile.ctas || (tile.ctas - 1) * tile.share < args.rest;
    EXPECT_TRUE(all_have_work) << where << ": a CTA has none";
}

TEST(GatherTile, StaysWithinTheMachine) {
    for (const char* file : {"baselines.txt", "correctness.txt"})
        for (const Problem& listed : read_problems(file))
            for (const Problem& problem : gathered_modes(listed)) {
                const StreamTables tables =
                    choose_stream(problem, kHopper, StreamEngine::wgmma, StreamForm::gather).tables;
                each_gather_tile(problem, tables, kHopper,
                                 [&](const StreamTile& tile) { expect_within_limits(problem, tables, tile); });
            }
}

TEST(GatherTile, RejectionsNameTheValues) {
    const auto reason = [](const char* line, const Device& device) {
        return reject_gather(Problem::parse(line), {}, device);
    };
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 tf32", kHopper), "");
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 f32", kHopper).find("f32 in full"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 s3 bf16", kHopper).find("stride 3"), std::string::npos);
    EXPECT_NE(reason("ci8 co8 4x4x8 k3x1x4 s2 p0x0x1 bf16", kHopper).find("kernel 3x1x4"), std::string::npos);
    EXPECT_EQ(reason("ci8 co8 4x4x8 k3 s2 p1 bf16", kHopper), "");
    EXPECT_NE(reason("ci8 co8 4x4x8 k3 tf32", kAmpere).find("8.0"), std::string::npos);
}

/// Large planes and many channels: what it is made for.
TEST(GatherTile, IsChosenForManyChannels) {
    const auto cheaper = [](const char* line) {
        const Problem problem = Problem::parse(line);
        return gather_cost(problem, {}, kHopper) < stream_cost(problem, {}, kHopper);
    };
    EXPECT_TRUE(cheaper("n16 ci64 co128 16x32x32 k5 tf32"));
    EXPECT_TRUE(cheaper("n16 ci256 co128 8x8x8 k4 s2 p1 bf16"));
    EXPECT_TRUE(cheaper("n16 ci32 co64 32x32x32 k5 s2 p2 tf32"));
    EXPECT_FALSE(cheaper("n8 ci48 co24 96x96x96 k3 tf32"));
    EXPECT_FALSE(cheaper("n32 ci32 co64 16x32x32 k3 s2 p1 op1 bf16"));
}

class GatherCompile : public testing::NvrtcTest {};

TEST_F(GatherCompile, TakesTheBaselines) {
    const size_t step = sampled_every() > 1 ? 7 : 1;
    size_t index = 0;
    for (const Problem& listed : read_problems("baselines.txt")) {
        for (const Problem& problem : gathered_modes(listed)) {
            if (index++ % step != 0) continue;
            const auto [tables, tile] = choose_stream(problem, kHopper, StreamEngine::wgmma, StreamForm::gather);
            const bool has_bias = index / step % 2 == 0;
            const Compiled kernel = compile_for(kHopper.sm, stream_request(problem, tables, tile, {}, has_bias, false));
            testing::expect_fits(kernel, problem, StreamEngine::wgmma, problem.str() + ", " + tile.name());
        }
    }
}

} // namespace
} // namespace tconv3d::cuda
