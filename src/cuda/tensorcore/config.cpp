#include "cuda/tensorcore/config.hpp"

#include <algorithm>

#include <cmath>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// At which the clocks of an estimate are counted.
constexpr double kClocksPerMicrosecond = 1755;

std::string number(int64_t value) {
    return std::to_string(value);
}

/// A constant whose value is one of an enumeration of kernels/shared/tensorcore.cuh.
std::string enumerator(const char* type, const char* constant, const char* value) {
    return std::string("constexpr ") + type + " " + constant + " = " + type + "::" + value + ";\n";
}

/// What the name of a config says of rows that pass through shared memory.
const char* store_words(const Config& config) {
    if (!config.store.passes_shared_memory()) return "";
    if (config.store.way == Store::seamed_rows) return ", staged with seams";
    return config.has_storer() ? ", staged in pieces" : ", staged";
}

} // namespace

const char* name(Source source) {
    switch (source) {
    case Source::swizzled:
        return "swizzled";
    case Source::rows:
        return "rows";
    case Source::whole_rows:
        return "whole_rows";
    case Source::whole_planes:
        return "whole_planes";
    case Source::ranges:
        return "ranges";
    case Source::core_matrices:
        return "core_matrices";
    case Source::global:
        return "global";
    }
    throw Error("unknown source");
}

const char* name(Store store) {
    switch (store) {
    case Store::voxels:
        return "voxels";
    case Store::pairs:
        return "pairs";
    case Store::quads:
        return "quads";
    case Store::channels:
        return "channels";
    case Store::bulk_rows:
        return "bulk_rows";
    case Store::warp_rows:
        return "warp_rows";
    case Store::seamed_rows:
        return "seamed_rows";
    }
    throw Error("unknown store");
}

const char* name(Packing packing) {
    switch (packing) {
    case Packing::every_rotation:
        return "every_rotation";
    case Packing::one_rotation:
        return "one_rotation";
    case Packing::by_cta:
        return "by_cta";
    }
    throw Error("unknown packing");
}

void InputStaging::print(Prelude& prelude) const {
    prelude.add(enumerator("Source", "kSource", name(source)))
        .constant("kSteps", steps)
        .constant("kPlaneBoxes", boxes)
        .constant("kRawBytes", raw_bytes)
        .constant("kRawStages", raw_stages)
        .constant("kTableBytes", table_bytes)
        .constant("kRearrangingWarps", warps);
}

void ProductTiles::print(Prelude& prelude) const {
    prelude.constant("kColumns", columns)
        .constant("kMTiles", m_tiles)
        .constant("kConsumers", kConsumers)
        .constant("kSummedSteps", summed_steps);
}

void WeightStaging::print(Prelude& prelude) const {
    prelude.add(enumerator("Packing", "kPacking", name(packing)))
        .constant("kWeightStages", stages)
        .constant("kWeightStageBytes", stage_bytes);
}

void OutputStore::print(Prelude& prelude) const {
    prelude.add(enumerator("Store", "kStore", name(way)))
        .constant("kStoreBytes", channel_bytes)
        .constant("kStoreColumns", columns)
        .constant("kStoreBuffers", kBuffers);
}

void PipelineStages::print(Prelude& prelude) const {
    prelude.constant("kStages", stages).flag("kRetainsSlices", retains_slices).constant("kOverread", kOverread);
}

double Schedule::microseconds() const {
    constexpr double kLaunch = 3;
    return kLaunch + clocks / kClocksPerMicrosecond;
}

std::string Schedule::str() const {
    std::string taken;
    if (whole_items > 0) taken = (whole_items % ctas > 0 ? "up to " : "") + number(cuts(whole_items, ctas)) + " items";
    if (share > 0) taken += (taken.empty() ? "" : " and ") + number(share) + " slices";
    return number(ctas) + " CTAs take " + (taken.empty() ? "nothing" : taken + " each") + ", about " +
           number(std::lround(clocks / kClocksPerMicrosecond)) + " us";
}

int64_t Config::span() const {
    if (plane.interleaved) return tile.images * tile.h * 8;
    return ((tile.images - 1) * plane.rows + tile.h - 1) * plane.pitch + tile.w;
}

int64_t Config::store_bytes() const {
    if (gathered()) return kConsumers * 4 * 8 * store.channel_bytes; // 8 channels for each warp
    return OutputStore::kBuffers * store.columns * 4 * store.channel_bytes;
}

std::string Config::name() const {
    return std::string(any_size() ? "any size: " : "") + number(tile.images) + (tile.slices > 1 ? " slices" : "") +
           " x " + number(tile.h) + " x " + number(tile.w) + " voxels" + (plane.blocks_w > 0 ? " in blocks" : "") +
           ", " + number(tile.channels) + " channels, " + number(input.steps) + " k steps a stage" +
           store_words(*this) + (has_rearrangers() ? ", " + number(input.warps) + " rearranging warps" : "") +
           (packs_own_weights() ? ", own weights" : "") + (pipeline.retains_slices ? ", kept" : "");
}

bool InputStaging::scatters_elements(const Problem& problem) const {
    const Extents stride = in_stride(problem);
    return source == Source::ranges || (has_planes() && stride[1] * stride[2] > 1);
}

void Config::print_geometry(Prelude& prelude) const {
    const auto constant = [&](const char* name, int64_t value) { prelude.constant(name, any_size() ? 1 : value); };
    prelude.flag("kAnySize", any_size())
        .constant("kTileChannels", tile.channels)
        .constant("kSlices", tile.slices)
        .constant("kBlocksH", plane.blocks_h)
        .constant("kBlocksW", plane.blocks_w)
        .constant("kCoreStride", core_stride())
        .constant("kPositions", plane.positions);
    constant("kImages", tile.images);
    constant("kTileH", tile.h);
    constant("kTileW", tile.w);
    constant("kPlaneRows", plane.rows);
    constant("kPitch", plane.pitch);
    constant("kRowPitch", row_pitch());
    constant("kImagePitch", image_pitch());
    constant("kTail", plane.tail);
    constant("kInPlanePitch", plane.plane_pitch);
    constant("kBoxRows", input.box_rows);
    constant("kRawPitch", input.raw_pitch);
    constant("kActiveConsumers", products.warpgroups);
}

void Config::print(Prelude& prelude) const {
    prelude.flag("kGathered", gathered()).flag("kWgmma", engine == Engine::wgmma);
    print_geometry(prelude);
    input.print(prelude);
    products.print(prelude);
    weights.print(prelude);
    store.print(prelude);
    pipeline.print(prelude);
}

bool is_16_bit(const Problem& problem) {
    return bytes_per_element(problem.dtype) == 2;
}

int64_t channel_step(const Problem& problem) {
    return 32 / bytes_per_element(problem.dtype);
}

int64_t chunks(const Problem& problem, const Config& config) {
    return cuts(in_channels(problem), channel_step(problem) * config.input.steps);
}

int64_t all_steps(const Problem& problem, const Config& config) {
    return config.input.steps * chunks(problem, config);
}

int64_t filled_cores(const Problem& problem, const Config& config) {
    const int64_t cores = 2 * config.input.steps;
    if (!config.input.scatters_elements(problem) || chunks(problem, config) > 1) return cores;
    return std::min(cores, cuts(in_channels(problem), channel_step(problem) / 2));
}

int64_t parts(const Problem& problem) {
    return problem.dtype == DType::f32 && problem.math == MathMode::full ? 2 : 1;
}

int64_t part_products(const Problem& problem) {
    return parts(problem) == 2 ? 3 : 1;
}

bool has_channel_planes(const Problem& problem) {
    return !problem.channels_last() || all_in_channels(problem) == 1;
}

bool has_aligned_rows(const Problem& problem) {
    return problem.channels_last() || out_extents(problem)[2] % out_stride(problem)[2] == 0;
}

int64_t lane_channels(const Problem& problem, const Config& config) {
    int64_t channels = 2;
    if (config.store.way != Store::channels) return channels;
    if (config.gathered()) return 2 * channels; // rows of two core matrices in turn
    while (2 * channels * bytes_per_element(problem.dtype) <= 16 && config.tile.channels % (8 * channels) == 0)
        channels *= 2;
    return channels;
}

int64_t item_depth(const TapTables& tables, const Config& config) {
    if (tables.gathered())
        return tables.q_count[0] * tables.row_sets() * static_cast<int64_t>(tables.depth.rings.size());
    return tables.q_count[0] / config.tile.slices;
}

int64_t item_count(const Problem& problem, const TapTables& tables, const Config& config) {
    // Items of the gathered form have all phases along H, one after another.
    const int64_t sets = tables.gathered() ? 1 : tables.row_sets();
    return sets * cuts(problem.batch, config.tile.images / config.tile.slices) * problem.groups *
           cuts(out_channels(problem), config.tile.channels) * cuts(tables.q_count[1], config.tile.h) *
           cuts(tables.q_count[2], config.tile.w);
}

int64_t accumulator_registers(const TapTables& tables, const Config& config) {
    return config.products.m_tiles * tables.plane.accumulators * config.products.columns / 2;
}

int64_t packed_words(const Problem& problem, const TapTables& tables, const Config& config) {
    if (config.packs_own_weights()) return 0;
    const int64_t channel_tiles = cuts(out_channels(problem), config.tile.channels);
    const int64_t rotations =
        config.weights.packing == Packing::one_rotation ? tables.depth.planes : tables.depth.rotations;
    return problem.groups * channel_tiles * all_steps(problem, config) * parts(problem) * tables.plane.pass_count() *
           tables.plane.taps() * rotations * tables.depth.slots * config.tile.channels * 8;
}

} // namespace tconv3d::cuda::tensorcore
