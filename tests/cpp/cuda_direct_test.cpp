// The families direct and cells: tables and tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cuda/cells/cells.hpp"
#include "cuda/direct/direct.hpp"
#include "made_up_devices.hpp"
#include "problem_file.hpp"

namespace tconv3d::cuda {
namespace {

using testing::listed_problems;

constexpr int kMultiprocessors = 132;

/// (output, tap, src) of every pair that meets, from the definition: stride · src − padding + tap · dilation = output.
std::set<std::array<int64_t, 3>> meetings(const Problem& problem, size_t dim) {
    std::set<std::array<int64_t, 3>> found;
    for (int64_t src = 0; src < problem.src[dim]; ++src)
        for (int64_t tap = 0; tap < problem.kernel[dim]; ++tap) {
            const int64_t output = problem.stride[dim] * src - problem.padding[dim] + tap * problem.dilation[dim];
            if (output >= 0 && output < problem.dst()[dim]) found.insert({output, tap, src});
        }
    return found;
}

std::set<std::array<int64_t, 3>> meetings_of_cells(const Problem& problem, size_t dim, int64_t cell) {
    std::set<std::array<int64_t, 3>> found;
    const IndexMap map(problem);
    const std::vector<CellShift> shifts = cell_shifts(map.axes[dim], cell);
    for (int64_t m = 0; m * cell < problem.dst()[dim]; ++m)
        for (const CellShift& shift : shifts)
            for (const auto& [output, tap] : shift.uses) {
                const int64_t src = cell / problem.stride[dim] * m + shift.shift;
                if (src < 0 || src >= problem.src[dim] || m * cell + output >= problem.dst()[dim]) continue;
                EXPECT_TRUE(found.insert({m * cell + output, tap, src}).second) << problem.str();
            }
    return found;
}

TEST(Cells, MeetEveryTapOnce) {
    for (const Problem& problem : listed_problems())
        for (size_t dim = 0; dim < 3; ++dim)
            for (const int64_t strides : {1, 2, 4})
                EXPECT_EQ(meetings_of_cells(problem, dim, strides * problem.stride[dim]), meetings(problem, dim))
                    << problem.str() << " dimension " << dim << ", cells of " << strides << " strides";
}

TEST(Cells, TakeUsualProblemsInEveryDtypeAndLayout) {
    for (const char* line : {"ci48 co24 96x96x96 k3", "ci64 co128 24x48x48 k3 s2 p1", "ci32 co32 8x8x8 k2 s2",
                             "ci32 co64 64x64x64 k3x5x5", "ci64 co64 32x32x32 k4 s2 p1 g64", "ci8 co8 8x8x8 k7 p3"})
        for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
            for (const Layout layout : {Layout::ncdhw, Layout::ndhwc}) {
                Problem problem = Problem::parse(line);
                problem.dtype = dtype;
                problem.layout = layout;
                const CellTile tile = choose_cell_tile(problem, kMultiprocessors);
                EXPECT_GT(tile.microseconds, 0) << problem.str();
                EXPECT_GT(tile.chunk, 0) << problem.str();
            }
}

TEST(Cells, IndexBeyond32BitsWhereASampleNeedsIt) {
    const auto offset = [](const char* line) {
        const Problem problem = Problem::parse(line);
        const KernelRequest request =
            cells_request(problem, choose_cell_tile(problem, kMultiprocessors), {}, {false, false});
        return request.prelude.find("using Offset = long long;") == std::string::npos ? 32 : 64;
    };
    EXPECT_EQ(offset("n100 ci64 co64 256x256x256 k2"), 32);
    EXPECT_EQ(offset("n1 ci64 co64 256x256x256 k2 ndhwc"), 64);
    EXPECT_EQ(offset("n1 ci1 co1 1024x1024x1024 k2"), 64);
}

TEST(Direct, TakesEveryDirection) {
    for (const char* direction : {"fwd", "bwd_data", "bwd_weight"}) {
        const Problem problem = Problem::parse(std::string("n2 ci6 co4 3x4x5 k3 s2 p1 g2 ") + direction);
        const Answer answer = answer_direct({problem, {}, testing::kHopper});
        ASSERT_TRUE(answer.accepts()) << direction << ": " << answer.reason;
        EXPECT_GT(answer.candidates.front().microseconds, 0) << direction;
        EXPECT_EQ(answer.candidates.front().prepare()->workspace_bytes(), 0U) << direction;
        EXPECT_EQ(direct_request(problem, {}, {false, false}).entry, std::string("direct_") + direction);
    }
}

TEST(Direct, SaysHowItSums) {
    const auto describe = [](const char* line) {
        const Problem problem = Problem::parse(line);
        return answer_direct({problem, {}, testing::kHopper}).candidates.front().prepare()->describe();
    };
    EXPECT_EQ(describe("ci6 co3 3x4x5 k3 fwd"), "gathers one voxel x 3 channels in a thread");
    EXPECT_EQ(describe("ci6 co3 3x4x5 k3 bwd_data"), "gathers one voxel x 4 channels in a thread");
    EXPECT_EQ(describe("ci6 co3 3x4x5 k3 bwd_weight"), "sums one tap x 3 channels in a CTA, 8 threads along a row");
    EXPECT_EQ(describe("ci6 co3 3x4x50 k3 bwd_weight"), "sums one tap x 3 channels in a CTA, 32 threads along a row");
}

} // namespace
} // namespace tconv3d::cuda
