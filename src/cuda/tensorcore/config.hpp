#pragma once

#include <cstdint>
#include <string>

#include "cuda/kernels/shared/tensorcore.cuh"
#include "cuda/source/prelude.hpp"
#include "cuda/tensorcore/tables.hpp"
#include "tconv3d/problem.hpp"

/// How a tensor-core kernel carries out a problem: everything that a kernel is specialised for beside the problem, its
/// taps and its epilogue. Each part prints its constants for the kernel; cuda/source/constants.cpp tells their meaning.
namespace tconv3d::cuda::tensorcore {

constexpr int64_t kConsumers = 2;           ///< warpgroups that multiply
constexpr int64_t kProducerRearrangers = 2; ///< warps of the producer that rearrange input

/// What multiplies: wgmma on Hopper, mma.sync on every GPU with tensor cores.
enum class Engine { wgmma, mma };

/// Whether a kernel is made for the extents of a problem, or serves all.
enum class Sizes { one, any };

const char* name(Source source);
const char* name(Store store);
const char* name(Packing packing);

/// What a work item has of the output: positions q of some images, and channels.
struct TileShape {
    int64_t channels;
    int64_t images;
    int64_t slices; ///< 1, or as many as images: these are then slices of one image
    int64_t h;
    int64_t w;
};

/// The positions of a staged plane: those of a tile and its halo, row after row. A stage has one for each input plane
/// of H and W, one behind the other.
struct StagedPlane {
    int64_t rows;
    int64_t pitch;       ///< positions from a row of an image to its next
    int64_t tail;        ///< positions behind all rows that are read as the halo of a next one
    int64_t plane_pitch; ///< positions from an input plane to the next
    int64_t positions;   ///< that there is room for, of all input planes
    int64_t blocks_h;    ///< m64 tiles of 8 × 8 voxels in an image, where core matrices follow the rows; else 0
    int64_t blocks_w;
    bool interleaved; ///< Rows of all images are side by side.
};

/// How the input gets into its stages.
struct InputStaging {
    Source source;
    int64_t steps;    ///< k steps of a stage
    int64_t box_rows; ///< of the input that TMA brings in one box
    int64_t boxes;    ///< of a staged plane, where rows are whole
    int64_t raw_pitch;
    int64_t raw_bytes; ///< of a stage as TMA brings it, where warps rearrange it
    int64_t raw_stages;
    int64_t table_bytes; ///< of where the elements of a stage belong, if warps rearrange them one by one
    int64_t warps;       ///< that rearrange: two of the producer, and four more where a warpgroup does nothing else

    /// Whether TMA goes by a tensor map.
    bool has_map() const { return source != Source::global && source != Source::ranges; }
    /// Whether a kernel is made for the extents of the input.
    bool has_whole_rows() const { return source == Source::whole_rows || source == Source::whole_planes; }
    /// Whether warps rearrange planes of a channel.
    bool has_planes() const { return source == Source::rows || has_whole_rows(); }
    /// Whether warps load the input, from global memory or by distances that are no constants: that takes registers.
    bool loads_by_addresses(Sizes sizes) const {
        return source == Source::global || (sizes == Sizes::any && source != Source::swizzled);
    }
    /// Whether warps rearrange rows of a channel: planes or ranges.
    bool takes_rows() const { return has_planes() || source == Source::ranges; }
    /// Whether the elements of these rows do not simply follow one another in the stages: where a stride divides them
    /// among
    /// input planes, and where they come as ranges (kernels/load/raw_lines.cuh).
    bool scatters_elements(const Problem& problem) const;
    void print(Prelude& prelude) const;
};

/// How stages are multiplied.
struct ProductTiles {
    int64_t columns;      ///< of a product
    int64_t m_tiles;      ///< products of a consumer side by side: of 64 positions each, or of `columns` if gathered
    int64_t warpgroups;   ///< consumers that have positions: one where the tile is small
    int64_t tap_groups;   ///< of a plane's taps: a stage of weights holds one
    int64_t summed_steps; ///< k steps that are summed before they are rounded: all, or a few where fp32 is split

    void print(Prelude& prelude) const;
};

/// How weights get into their stages.
struct WeightStaging {
    Packing packing;
    int64_t stages;
    int64_t stage_bytes;

    void print(Prelude& prelude) const;
};

/// How outputs are stored.
struct OutputStore {
    static constexpr int64_t kBuffers = 2; ///< of outputs on their way through shared memory, in the streamed form

    Store way;
    int64_t channel_bytes; ///< of a channel's outputs, where they pass through shared memory
    int64_t columns;       ///< of four channels in a buffer, in the streamed form

    bool passes_shared_memory() const {
        return way == Store::bulk_rows || way == Store::warp_rows || way == Store::seamed_rows;
    }
    void print(Prelude& prelude) const;
};

/// The stages of input, and all of shared memory.
struct PipelineStages {
    static constexpr int64_t kOverread = 256; ///< bytes that the last load of a raw plane may touch behind it

    int64_t stages;
    int64_t stage_bytes;
    bool retains_slices; ///< gathered: An input slice stays in its stages for all output slices that read it.
    int64_t shared_bytes;

    void print(Prelude& prelude) const;
};

/// What CTAs take, and how long all of it is estimated to take.
struct Schedule {
    int64_t ctas;
    int64_t whole_items; ///< that CTAs take one by one, as long as there is one for each
    int64_t share;       ///< slices of the other items, for a CTA
    double clocks;

    /// The time of these clocks and of a launch.
    double microseconds() const;
    std::string str() const;
};

struct Config {
    Form form;
    Engine engine;
    Sizes sizes; ///< any: Tile and staged plane, but for channels and room, are arguments of the kernel.
    TileShape tile;
    StagedPlane plane;
    InputStaging input;
    ProductTiles products;
    WeightStaging weights;
    OutputStore store;
    PipelineStages pipeline;
    Schedule schedule;

    bool gathered() const { return form == Form::gathered; }
    bool any_size() const { return sizes == Sizes::any; }
    /// Whether a warpgroup of its own sends what consumers have staged.
    bool has_storer() const { return gathered() && store.way == Store::bulk_rows; }
    /// Whether a warpgroup of its own rearranges input beside the producer.
    bool has_rearrangers() const { return input.warps > kProducerRearrangers; }
    bool packs_own_weights() const { return weights.packing == Packing::by_cta; }
    int64_t threads() const { return (kConsumers + (has_storer() || has_rearrangers() ? 2 : 1)) * 128; }
    /// Positions from one core matrix of a product to the next.
    int64_t core_stride() const { return plane.blocks_w > 0 ? plane.pitch : 8; }
    /// Bytes from a position to the next: all channels of a stage, or those of one core matrix.
    int64_t position_bytes() const { return input.source == Source::swizzled ? input.steps * 32 : 16; }
    /// Positions from a row, and from an image, to the next.
    int64_t row_pitch() const { return plane.interleaved ? tile.images * plane.pitch : plane.pitch; }
    int64_t image_pitch() const { return plane.interleaved ? plane.pitch : plane.rows * plane.pitch; }
    /// Positions from the first to the last that is stored.
    int64_t span() const;
    /// Bytes of shared memory that outputs pass through.
    int64_t store_bytes() const;
    /// What sets it apart from other configs of a problem.
    std::string name() const;
    /// Prints the constants of all parts.
    void print(Prelude& prelude) const;

private:
    /// Prints the constants of the tile and the staged plane, each as 1 where these are arguments.
    void print_geometry(Prelude& prelude) const;
};

bool is_16_bit(const Problem& problem);

/// Channels of one k step: 32 bytes.
int64_t channel_step(const Problem& problem);

/// Chunks of channels, which are the stages of a slice, and their k steps.
int64_t chunks(const Problem& problem, const Config& config);
int64_t all_steps(const Problem& problem, const Config& config);

/// Core matrices of a position that warps fill. Where they scatter elements, and a stage has room for more channels
/// than there are, they leave the others alone.
int64_t filled_cores(const Problem& problem, const Config& config);

/// 2 where fp32 is multiplied as a sum of two tf32 parts, and the products that this takes: high by high, high by low,
/// low by high.
int64_t parts(const Problem& problem);
int64_t part_products(const Problem& problem);

/// Whether the phases of a voxel along w are one aligned access in every row; where channels are contiguous, no row
/// matters.
bool has_aligned_rows(const Problem& problem);
/// Whether the input lies in memory by channels, plane by plane: in NCDHW, and in either layout if it has one channel.
bool has_channel_planes(const Problem& problem);

/// Neighbouring channels that a lane stores: up to 16 bytes, where the tile's channels are multiples of that.
int64_t lane_channels(const Problem& problem, const Config& config);

/// Slices q along D of an item, or groups of them where a tile has several; output slices in the gathered form.
int64_t item_depth(const TapTables& tables, const Config& config);

/// Work items, none of them cut along D.
int64_t item_count(const Problem& problem, const TapTables& tables, const Config& config);

/// Registers of a consumer thread that hold accumulators.
int64_t accumulator_registers(const TapTables& tables, const Config& config);

/// 32-bit words of the packed weights; none where CTAs pack theirs.
int64_t packed_words(const Problem& problem, const TapTables& tables, const Config& config);

} // namespace tconv3d::cuda::tensorcore
