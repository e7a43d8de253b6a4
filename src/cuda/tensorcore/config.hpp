#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cuts.hpp"
#include "cuda/runtime/compile.hpp"
#include "cuda/runtime/driver.hpp"
#include "cuda/runtime/jit.hpp"
#include "cuda/source/prelude.hpp"
#include "tconv3d/cuda.hpp"
#include "tconv3d/epilogue.hpp"
#include "tconv3d/problem.hpp"

/// The kernels that stream along D (kernels/stream.cuh): their tables, their tile, their cost. Two engines multiply:
/// wgmma on Hopper, mma.sync on every GPU with tensor cores.
namespace tconv3d::cuda {

constexpr int64_t kStreamConsumers = 2; ///< warpgroups that multiply

enum class StreamEngine { wgmma, mma };

/// Where the cores of src come from; the numbers are those of kernels/stream_shape.cuh.
enum class StreamSource {
    channels,  ///< the copy engine writes them, all channels of a stage of a voxel side by side
    planes,    ///< warps gather them from planes that the copy engine brings
    raw_cores, ///< warps split what the copy engine brings
    global,    ///< warps read src
    whole,     ///< as planes; the tile has all of a plane, which the copy engine brings in one piece
    runs,      ///< as planes; the tile has whole rows, which the copy engine brings some at a time
};

/// How sums get into dst; the numbers are those of kernels/stream_shape.cuh.
enum class StreamStore {
    voxel,    ///< the phases of a voxel along w, at once where they are aligned
    pairs,    ///< two voxels at once
    quads,    ///< four of them
    staged,   ///< whole rows, through shared memory
    channels, ///< neighbouring channels at once
};

/// How slices of src and of dst meet.
enum class StreamForm {
    scatter, ///< a slice of src is multiplied for all slices of dst that it adds to: kernels/stream.cuh
    gather,  ///< a slice of dst is made of all slices of src that it reads: kernels/gather.cuh
};

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

/// A group of taps: runs, counted through all offsets, and uses.
struct TapGroup {
    int64_t first_run;
    int64_t first_use;
};

/// A tap along D, and the slice of src that it reads, relative to q.
struct StreamDepthTap {
    int64_t phase;
    int64_t tap;
    int64_t delta;
};

/// Which phases along H a work item has.
enum class StreamRows {
    together, ///< all of them
    apart,    ///< one: it writes every stride-th row, and has room for more channels
};

/// A pass over all offsets, moved along H. Where rows are together there is one, which moves nothing; where they are
/// apart, one for each tap along H.
struct StreamPass {
    int64_t tap_h;
    int64_t delta_h;
};

/// Passes of the work items of one phase along H.
struct StreamRowSet {
    int64_t phase;
    int64_t first_pass;
};

/// What the kernel needs to know of the problem's phases. They are counted from the first output here, not from the
/// padding: output o = stride · q + r reads src at q + delta, stride · delta = r + padding - tap · dilation.
struct StreamTables {
    StreamForm form;
    std::vector<Ring> rings; ///< by D phase
    int64_t slots;           ///< 1 where sums are gathered
    int64_t rotations;       ///< slices after which every ring is where it was; taps along D where sums are gathered
    std::vector<StreamDepthTap> depth_taps; ///< by phase
    std::vector<StreamOffset> offsets;
    std::vector<StreamPass> passes;
    std::vector<StreamRowSet> row_sets; ///< those with the most passes first
    std::array<int64_t, 3> delta_min;   ///< d, h, w
    std::array<int64_t, 3> delta_max;
    std::array<int64_t, 3> q_end;     ///< q counts from 0
    std::vector<int64_t> accumulator; ///< by phase (h, w) of a work item: which sums it has, -1 for none
    int64_t accumulators;
    std::vector<std::vector<TapGroup>> cut_taps; ///< what tap_groups() gives for 1, 2, … groups

    explicit StreamTables(const Problem& problem, StreamRows rows = StreamRows::together,
                          StreamForm form = StreamForm::scatter);
    /// Phases along H of a work item.
    int64_t row_phases(const Problem& problem) const {
        return problem.stride[1] / static_cast<int64_t>(row_sets.size());
    }
    int64_t pass_count() const { return static_cast<int64_t>(passes.size()); }
    /// Of a work item, on average.
    double mean_passes() const { return static_cast<double>(passes.size()) / static_cast<double>(row_sets.size()); }
    /// Of a work item of the set with the most, which is the first.
    double most_passes() const {
        return static_cast<double>(row_sets.size() == 1 ? pass_count() : row_sets[1].first_pass);
    }
    /// Of one pass, as are the runs.
    int64_t uses() const;
    int64_t runs() const;
    int64_t longest_run() const;
    /// Where each of that many groups begins, and the end of the last. There is one, or as many as runs at most.
    const std::vector<TapGroup>& tap_groups(int64_t groups) const { return cut_taps[static_cast<size_t>(groups - 1)]; }
    /// The least along H of the offsets.
    int64_t first_delta_h() const;
    /// Source positions beside its own that the outputs of a position read along a dimension.
    int64_t halo(size_t dim) const { return delta_max[dim] - delta_min[dim]; }
};

/// The tile of one CTA and how it is staged.
struct StreamTile {
    static constexpr int64_t kStagedBuffers = 2; ///< of outputs on their way through shared memory
    static constexpr int64_t kOverread = 256;    ///< bytes that the last load of a raw plane may touch behind it

    StreamEngine engine;
    StreamSource source;
    StreamStore store;
    int64_t dst_channels; ///< of a work item
    int64_t images;
    int64_t slices; ///< 1, or as many as images: these are slices of one, and all others count such groups
    int64_t h;
    int64_t w;
    int64_t columns;  ///< of a product
    int64_t m_tiles;  ///< products of a consumer warpgroup side by side: of 64 positions each, or of `columns`
    int64_t busy;     ///< consumer warpgroups that have positions: one where the tile is small
    int64_t blocks_h; ///< m64 tiles of 8 × 8 voxels in an image, where its cores follow the rows; else 0
    int64_t blocks_w;
    int64_t rows; ///< of a staged plane
    int64_t pitch;
    bool gathered;        ///< as the tables say
    bool keeps;           ///< gathered: a slice of src stays in its stages for all steps that read it
    bool trades;          ///< gathered: lanes trade, to store four voxels at once instead of two
    bool seams;           ///< gathered: sectors in which rows of dst meet are cleared before these are stored
    bool pieces;          ///< gathered: the rows of all phases along H are stored together, by a warpgroup of its own
    bool interleaved;     ///< images are side by side in each row
    int64_t tail;         ///< positions behind all rows that are read as the halo of a next one
    int64_t positions;    ///< that a staged plane has room for
    int64_t steps;        ///< k steps of a stage
    int64_t summed_steps; ///< that are summed up before they are rounded: all, or where fp32 is split a few
    int64_t stages;       ///< of src
    int64_t stage_bytes;
    int64_t tap_groups; ///< of the plane's taps: a stage of weights holds one
    int64_t weight_stages;
    int64_t weight_stage_bytes;
    bool turned;       ///< the packed weights hold one rotation, which copies turn: all would be too much memory
    bool own_weights;  ///< each CTA packs those of its channels, which all fit into shared memory
    int64_t run_rows;  ///< that the copy engine brings in one piece, where rows are whole
    int64_t run_boxes; ///< such pieces of a staged plane
    int64_t raw_pitch;
    int64_t raw_bytes; ///< of a stage as the copy engine brings it, where warps arrange it
    int64_t raw_stages;
    int64_t staged_bytes;   ///< of a channel's outputs, where they go through shared memory
    int64_t staged_columns; ///< of four channels in a buffer
    int64_t ctas;
    int64_t whole_items; ///< that CTAs take one by one, as long as there is one for each
    int64_t share;       ///< of the slices of the others, for a CTA
    int64_t shared_bytes;
    double clocks; ///< estimated, for the whole problem

    /// Bytes of the buffers that outputs go through.
    int64_t staged_total() const {
        if (gathered) return kStreamConsumers * 4 * 8 * staged_bytes; // 8 channels for each warp
        return kStagedBuffers * staged_columns * 4 * staged_bytes;
    }
    /// Of a CTA: warpgroups that multiply, one that fills the stages, and one that sends pieces.
    int64_t threads() const { return (kStreamConsumers + (pieces ? 2 : 1)) * 128; }
    /// Positions between the cores of a product.
    int64_t core_stride() const { return blocks_w > 0 ? pitch : 8; }
    /// Bytes from a position to the next: all channels of a stage, or those of one core.
    int64_t position_bytes() const { return source == StreamSource::channels ? steps * 32 : 16; }
    /// Positions from the first to the last that is stored.
    int64_t span() const {
        if (interleaved) return images * h * 8;
        return ((images - 1) * rows + h - 1) * pitch + w;
    }
    /// Positions from a row, and from an image, to the next.
    int64_t row_pitch() const { return interleaved ? images * pitch : pitch; }
    int64_t image_pitch() const { return interleaved ? pitch : rows * pitch; }
    /// What sets it apart from others of a problem, and what each CTA gets of it.
    std::string name() const;
    std::string work() const;
};

/// Channels of one k step: 32 bytes.
int64_t stream_channel_step(const Problem& problem);
/// Stages of a slice, and k steps of them all.
int64_t stream_chunks(const Problem& problem, const StreamTile& tile);
int64_t stream_all_steps(const Problem& problem, const StreamTile& tile);
/// 2 where fp32 is multiplied as a sum of two tf32 parts.
int64_t stream_parts(const Problem& problem);
/// Of the parts of two operands: high by high, high by low, low by high.
int64_t stream_products(const Problem& problem);

/// Bytes of shared memory that tell where the outputs of gathered sums belong.
int64_t gather_place_bytes(const StreamTile& tile, const StreamTables& tables);

/// Where sums are gathered: whether the rows of a tile follow one another in its positions as they do in dst.
bool gather_is_contiguous(const Problem& problem, const StreamTile& tile);

/// The phases of a voxel along w are one aligned access in every row; where channels are contiguous, no row matters.
bool stream_has_aligned_rows(const Problem& problem);

/// Neighbouring channels that a lane stores: up to 16 bytes, where the tile's channels are cut into such pieces.
int64_t stream_lane_channels(const Problem& problem, const StreamTile& tile);

/// Positions from the first one that a position's outputs read in a pass to that of an offset.
int64_t stream_offset(const StreamTables& tables, const StreamTile& tile, const StreamOffset& offset);

/// Slices q along D, or groups of them where a tile has several; steps where sums are gathered.
int64_t stream_depth(const StreamTables& tables, const StreamTile& tile);

/// Work items, none of them cut along D.
int64_t stream_items(const Problem& problem, const StreamTables& tables, const StreamTile& tile);

/// Registers of a consumer thread that hold sums.
int64_t stream_sums(const StreamTables& tables, const StreamTile& tile);

/// Sets what each CTA gets, such that the tile takes the least estimated clocks, and these.
void estimate_stream(StreamTile& tile, const Problem& problem, const StreamTables& tables, int multiprocessors);

/// Calls `keep` with each tile that fits the device.
using KeepTile = std::function<void(const StreamTile&)>;
void each_stream_tile(const Problem& problem, const StreamTables& tables, const Device& device, StreamEngine engine,
                      const KeepTile& keep);

/// Where sums are gathered: why they cannot be, empty where they can; and the tiles.
std::string reject_gathered(const Problem& problem, const StreamTables& tables);
void each_gather_tile(const Problem& problem, const StreamTables& tables, const Device& device, const KeepTile& keep);

/// The tile with the least estimated clocks on the device; clocks is 0 when none fits.
StreamTile choose_stream_tile(const Problem& problem, const StreamTables& tables, const Device& device,
                              StreamEngine engine);

/// The tile and the tables it is made for.
struct StreamChoice {
    StreamTables tables;
    StreamTile tile;
    std::string name() const;
};

/// The best one of a form: the better of rows together and apart where sums are scattered.
StreamChoice choose_stream(const Problem& problem, const Device& device, StreamEngine engine,
                           StreamForm form = StreamForm::scatter);

/// Those with the least estimated clocks, which are worth measuring: no two of one name, the best first.
constexpr size_t kStreamCandidates = 8;
std::vector<StreamChoice> stream_candidates(const Problem& problem, const Device& device, StreamEngine engine,
                                            StreamForm form = StreamForm::scatter, size_t most = kStreamCandidates);

/// The candidate of that name; an empty one means choose_stream. Throws Error when there is none.
StreamChoice find_stream(const Problem& problem, const Device& device, StreamEngine engine, StreamForm form,
                         const std::string& name);

std::string reject_stream(const Problem& problem, const Epilogue& epilogue, const Device& device);
double stream_cost(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::vector<std::string> stream_variants(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::unique_ptr<Kernel> prepare_stream(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                       const std::string& variant);

std::string reject_gather(const Problem& problem, const Epilogue& epilogue, const Device& device);
double gather_cost(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::vector<std::string> gather_variants(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::unique_ptr<Kernel> prepare_gather(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                       const std::string& variant);

std::string reject_mma(const Problem& problem, const Epilogue& epilogue, const Device& device);
double mma_cost(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::vector<std::string> mma_variants(const Problem& problem, const Epilogue& epilogue, const Device& device);
std::unique_ptr<Kernel> prepare_mma(const Problem& problem, const Epilogue& epilogue, const Device& device,
                                    const std::string& variant);

/// kernels/stream_shape.cuh's StreamArgs, byte for byte.
struct StreamArgs {
    const void* weights;
    const void* src;
    int64_t dst_slice;
    int32_t batch, depth, src_h, src_w;
    int32_t dst_d, dst_h, dst_w;
    int32_t q_end_d;
    int32_t tiles_h, tiles_w, co_tiles;
    int32_t whole_items, rest, share;
    int32_t weight_channels_last;
};

/// All but the tensors.
StreamArgs stream_arguments(const Problem& problem, const StreamTables& tables, const StreamTile& tile);

/// What the copy engine sees of src: extents and strides, from the contiguous dimension on, and the box that is copied
/// at once. Groups count as images where channels are planes; where channels are contiguous, slices do.
struct StreamMapShape {
    std::array<int64_t, 5> extents;
    std::array<int64_t, 5> strides; ///< in elements
    std::array<int64_t, 5> box;
    int64_t swizzle; ///< bytes of a swizzled row, 0 where none are
};

StreamMapShape stream_map_shape(const Problem& problem, const StreamTile& tile);
/// Of a stage, as the copy engine brings it.
int64_t stream_raw_bytes(const Problem& problem, const StreamTile& tile);

/// 32-bit words of the packed weight; none where CTAs pack it for themselves.
int64_t stream_packed_words(const Problem& problem, const StreamTables& tables, const StreamTile& tile);

/// What a CTA packs.
struct StreamPack {
    int64_t channels; ///< of dst
    int64_t steps;    ///< k steps of src
    int64_t taps_d;   ///< with all taps (h, w) of each
    int64_t shared_bytes;
    int64_t parcels; ///< of all that, in the weight
};
StreamPack stream_pack(const Problem& problem, const StreamTile& tile, const Device& device);

/// CTAs that pack: for each parcel as many as give every multiprocessor some.
constexpr int64_t kStreamPackThreads = 256;
Dim3 stream_pack_grid(const StreamPack& pack, int64_t packed_words, const Device& device);

/// What both kernels of a tile are told.
Prelude stream_constants(const Problem& problem, const StreamTables& tables, const StreamTile& tile);

/// What is compiled for a tile: the packing of the weight, and the kernel.
KernelRequest stream_pack_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                                  const StreamPack& pack);
KernelRequest stream_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                             const Epilogue& epilogue, bool has_bias, bool saves_preactivation);

} // namespace tconv3d::cuda
