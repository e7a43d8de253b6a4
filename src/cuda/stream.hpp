#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cuts.hpp"
#include "cuda/compile.hpp"
#include "cuda/driver.hpp"
#include "tconv3d/cuda.hpp"
#include "tconv3d/epilogue.hpp"
#include "tconv3d/phases.hpp"
#include "tconv3d/problem.hpp"

/// The kernel family that streams along D with wgmma (kernels/stream.cuh): its tables, its tile and its cost.
namespace tconv3d::cuda {

constexpr int64_t kStreamConsumers = 2;   ///< warpgroups that multiply
constexpr int64_t kStreamChannelStep = 8; ///< channels of a stage: the k of one tf32 wgmma

/// A D phase's accumulator slots: q lives in slot q mod length.
struct Ring {
    int64_t length; ///< 0 for a phase without taps
    int64_t start;  ///< slots of the rings before it
    int64_t delta_max;
    int64_t delta_min;
};

/// A tap (h, w): which phase's sums it adds to.
struct StreamUse {
    int64_t phase; ///< rh * stride_w + rw
    int64_t tap_h;
    int64_t tap_w;
};

/// Uses of one offset whose sums lie side by side: one wgmma multiplies them all.
struct StreamRun {
    int64_t first; ///< accumulator
    int64_t count;
};

/// A position relative to an output's own that some taps read.
struct StreamOffset {
    int64_t delta_h;
    int64_t delta_w;
    std::vector<StreamUse> uses; ///< in the order of their accumulators
    std::vector<StreamRun> runs;
};

/// What the kernel needs to know of the problem's phases.
struct StreamTables {
    std::vector<Ring> rings; ///< by D phase
    int64_t slots;
    int64_t rotations; ///< slices after which every ring is where it was
    std::vector<StreamOffset> offsets;
    std::array<int64_t, 3> delta_min; ///< d, h, w
    std::array<int64_t, 3> delta_max;
    std::array<int64_t, 3> q_begin;
    std::array<int64_t, 3> q_end;
    std::vector<int64_t> accumulator; ///< by phase (h, w): which sums it has, -1 for none
    int64_t accumulators;

    explicit StreamTables(const Problem& problem);
    int64_t uses() const;
    int64_t longest_run() const;
};

/// The tile of one CTA and how it is staged.
struct StreamTile {
    int64_t dst_channels; ///< of a work item
    int64_t h;
    int64_t w;
    int64_t m_tiles;    ///< of 64 voxels, per consumer warpgroup
    int64_t plane_rows; ///< of a stage
    int64_t plane_pitch;
    int64_t stages;
    int64_t stage_bytes;
    int64_t segments; ///< along D
    int64_t segment_length;
    int64_t shared_bytes;
    double clocks; ///< estimated, for the whole problem

    std::string str() const;
};

/// The tile with the least estimated clocks on a GPU with that many multiprocessors; clocks is 0 when none fits.
StreamTile choose_stream_tile(const Problem& problem, const StreamTables& tables, int multiprocessors,
                              int64_t shared_limit);

std::string reject_stream(const Problem& problem, const Epilogue& epilogue, const Device& device);
double stream_cost(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::unique_ptr<Kernel> prepare_stream(const Problem& problem, const Epilogue& epilogue, const Device& device);

/// Floats of the packed weight.
int64_t stream_packed_elements(const Problem& problem, const StreamTables& tables, const StreamTile& tile);

/// What is compiled for a tile: the packing of the weight, and the kernel.
KernelRequest stream_pack_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile);
KernelRequest stream_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                             const Epilogue& epilogue, bool has_bias, bool saves_preactivation);

} // namespace tconv3d::cuda
