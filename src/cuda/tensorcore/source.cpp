#include "cuda/tensorcore/source.hpp"

#include <algorithm>
#include <string>

#include "core/cuts.hpp"
#include "core/direction.hpp"
#include "cuda/tensorcore/gathered/tiles.hpp"
#include "cuda/tensorcore/shifts.hpp"
#include "cuda/tensorcore/tensor_map.hpp"
#include "cuda/tensorcore/wgmma_source.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

/// multiply_fragments(c, a, b): one mma.sync.
std::string mma_source(const Problem& problem) {
    return std::string("#include \"base/ptx.cuh\"\n"
                       "__device__ __forceinline__ void multiply_fragments(float (&c)[4], const unsigned (&a)[4], "
                       "const unsigned (&b)[2]) {\n    ptx::mma_") +
           operand_type(problem) + "(c, a, b);\n}\n";
}

void add_problem(Prelude& prelude, const Problem& problem, const TapTables& tables, const Config& config) {
    const Extents in = in_extents(problem), out = out_extents(problem), stride = out_stride(problem);
    prelude.flag("kChannelsLast", problem.channels_last())
        .constant("kInChannels", in_channels(problem))
        .constant("kOutChannels", out_channels(problem))
        .constant("kGroups", problem.groups)
        .constant("kChannelStep", channel_step(problem))
        .constant("kParts", parts(problem))
        .extents("kKernel", problem.kernel)
        .flag("kWeightOutFirst", !is_fwd(problem))
        .extents("kStride", stride)
        .extents("kInStride", in_stride(problem))
        .extents("kShiftMin", tables.shift_min)
        .extents("kShiftMax", tables.shift_max)
        .constant("kInH", config.input.has_whole_rows() ? in[1] : 1)
        .constant("kInW", config.input.has_whole_rows() ? in[2] : 1)
        .flag("kSmallOut", problem.batch * all_out_channels(problem) * out[0] * out[1] * out[2] < int64_t{1} << 31)
        .flag("kAligned", out[2] % stride[2] == 0)
        .flag("kContiguous", config.gathered() && is_contiguous(problem, config))
        .constant("kLastRowPhases", out[1] - (out[1] - 1) / stride[1] * stride[1])
        .constant("kLastColumnPhases", out[2] - (out[2] - 1) / stride[2] * stride[2])
        .constant("kChannelTiles", cuts(out_channels(problem), config.tile.channels))
        .constant("kLaneChannels", lane_channels(problem, config))
        .constant("kWeightRows", tables.depth.slots * config.tile.channels)
        .constant("kRawAlign", 16 / bytes_per_element(problem.dtype))
        .constant("kRawBoxBytes", config.any_size() ? 1 : box_bytes(problem, config));
}

/// Registers change hands between the warpgroups. Together they have no more than the kernel starts with, 168 for each
/// of 384 threads, 128 of 512: more would wait for ever. Warps that load the input need some for addresses.
void add_registers(Prelude& prelude, const TapTables& tables, const Config& config) {
    const bool four = config.threads() == 4 * 128;
    const int64_t all = four ? 4 * 128 : 3 * 168, storer = config.has_storer() ? 48 : 0;
    const int64_t accumulators = accumulator_registers(tables, config);
    const bool rearranges = config.input.source != Source::swizzled;
    int64_t consumer = rearranges && accumulators <= 160 ? 224 : 232;
    if (config.input.loads_by_addresses(config.sizes)) consumer = accumulators <= 140 ? 208 : 224;
    if (config.input.source == Source::ranges) consumer = accumulators <= 144 ? 208 : accumulators <= 160 ? 216 : 224;
    if (config.gathered()) consumer = accumulators <= 120 ? 208 : rearranges ? 216 : 224;
    // Warps that rearrange ranges, or have the tile in registers too, need more.
    const bool ranges = config.has_rearrangers() && config.input.source == Source::ranges && accumulators <= 144;
    if (four) consumer = config.any_size() || ranges ? 184 : 200;
    const int64_t producers = config.has_rearrangers() ? 2 : 1; // warpgroups
    prelude.constant("kConsumerRegisters", consumer)
        .constant("kProducerRegisters", (all - storer - kConsumers * consumer) / producers)
        .constant("kStorerRegisters", storer);
}

void add_rings(Prelude& prelude, const TapTables& tables) {
    std::vector<int64_t> length, start, shift;
    for (const Ring& ring : tables.depth.rings) {
        length.push_back(ring.length);
        start.push_back(ring.start);
        shift.push_back(ring.shift_max);
    }
    const int64_t rotations = tables.depth.rotations;
    prelude.constant("kDPhases", static_cast<int64_t>(length.size()));
    prelude.array("kRingLength", length);
    prelude.array("kRingStart", start);
    prelude.array("kRingShift", shift);
    prelude.constant("kRotations", rotations);
    // A multiple of the rings' rotations that makes every position that is passed positive.
    prelude.constant("kRotationRound",
                     round_up(std::max<int64_t>(-tables.shift_min[0], 0), tables.depth.ring_rotations()));
}

void add_depth_taps(Prelude& prelude, const DepthTables& depth) {
    std::vector<int64_t> begin, taps, slices;
    for (const DepthTap& tap : depth.taps) {
        while (static_cast<int64_t>(begin.size()) <= tap.phase) begin.push_back(static_cast<int64_t>(taps.size()));
        taps.push_back(tap.tap);
        slices.push_back(tap.shift * depth.planes + tap.plane);
    }
    begin.resize(depth.rings.size() + 1, static_cast<int64_t>(taps.size()));
    prelude.array("kPhaseDepthTap", begin);
    prelude.array("kDepthTap", taps);
    prelude.array("kDepthTapSlice", slices);
}

/// The products of a pass, by shift.
std::vector<Product> all_products(const PlaneTables& plane) {
    std::vector<Product> all;
    for (const PlaneShift& shift : plane.shifts) all.insert(all.end(), shift.products.begin(), shift.products.end());
    return all;
}

void add_products(Prelude& prelude, const TapTables& tables, const Config& config) {
    std::vector<int64_t> planes, rows, product_rows, shifts, taps, firsts, counts;
    for (const ShiftedRow& shifted : shifted_rows(tables, config)) {
        planes.push_back(shifted.plane);
        rows.push_back(shifted.row);
    }
    int64_t tap = 0;
    for (const PlaneShift& shift : tables.plane.shifts) {
        for (const Product& product : shift.products) {
            const ProductShift shifted = product_shift(tables, config, shift);
            product_rows.push_back(shifted.row);
            shifts.push_back(shifted.positions);
            taps.push_back(tap);
            firsts.push_back(product.first);
            counts.push_back(product.count);
            tap += product.count;
        }
    }
    prelude.array("kShiftedPlane", planes);
    prelude.array("kShiftedRow", rows);
    prelude.array("kProductRow", product_rows);
    prelude.array("kProductShift", shifts);
    prelude.array("kProductTap", taps);
    prelude.array("kProductFirst", firsts);
    prelude.array("kProductCount", counts);
}

void add_tap_groups(Prelude& prelude, const PlaneTables& plane, const Config& config) {
    const std::vector<TapGroup>& groups = plane.tap_groups(config.products.tap_groups);
    const std::vector<Product> products = all_products(plane);
    std::vector<int64_t> first_products, first_taps, adds;
    for (const TapGroup& group : groups) {
        first_products.push_back(group.first_product);
        first_taps.push_back(group.first_tap);
    }
    for (size_t group = 0; group + 1 < groups.size(); ++group) {
        std::vector<int64_t> to(static_cast<size_t>(plane.accumulators), 0);
        for (int64_t i = groups[group].first_product; i < groups[group + 1].first_product; ++i) {
            const Product& product = products[static_cast<size_t>(i)];
            std::fill_n(to.begin() + product.first, product.count, 1);
        }
        adds.insert(adds.end(), to.begin(), to.end());
    }
    prelude.constant("kTapGroups", static_cast<int64_t>(groups.size()) - 1);
    prelude.array("kGroupProduct", first_products);
    prelude.array("kGroupTap", first_taps);
    prelude.array("kGroupAdds", adds);
}

void add_passes(Prelude& prelude, const TapTables& tables) {
    std::vector<int64_t> planes, rows, set_phase, set_pass;
    for (const Pass& pass : tables.plane.passes) {
        const ShiftedRow shifted = pass_shift(tables, pass);
        planes.push_back(shifted.plane);
        rows.push_back(shifted.row);
    }
    for (const RowSet& set : tables.plane.row_sets) {
        set_phase.push_back(set.phase);
        set_pass.push_back(set.first_pass);
    }
    set_pass.push_back(tables.plane.pass_count());
    prelude.constant("kPasses", tables.plane.pass_count());
    prelude.constant("kRowSets", tables.row_sets());
    prelude.array("kPassPlane", planes);
    prelude.array("kPassRow", rows);
    prelude.array("kSetPhase", set_phase);
    prelude.array("kSetPass", set_pass);
    prelude.constant("kPassTaps", tables.plane.taps());
}

/// Prints where the weights of each tap lie in a stage that a CTA packs for itself: the rows before them. Rings have
/// one slot each, and every tap is multiplied once.
void add_tap_rows(Prelude& prelude, const Problem& problem, const TapTables& tables, const Config& config) {
    std::vector<int64_t> rows(static_cast<size_t>(config.packs_own_weights() ? problem.taps() : 0));
    int64_t row = 0;
    for (const PlaneShift& shift : tables.plane.shifts) {
        for (const PlaneTap& tap : shift.taps) {
            for (size_t phase = 0; phase < tables.depth.rings.size() && config.packs_own_weights(); ++phase) {
                const Ring& ring = tables.depth.rings[phase];
                if (ring.length == 0) continue;
                const int64_t tap_d = tables.depth.tap_at(static_cast<int64_t>(phase), ring.shift_max, 0);
                rows[static_cast<size_t>((tap_d * problem.kernel[1] + tap.tap_h) * problem.kernel[2] + tap.tap_w)] =
                    row;
                row += config.tile.channels;
            }
        }
    }
    prelude.array("kTapRow", rows);
}

/// Outputs of a thread that its stores have written out.
int64_t thread_outputs(const TapTables& tables, const Config& config) {
    const auto phases = static_cast<int64_t>(tables.plane.accumulator.size());
    if (config.gathered()) return config.products.m_tiles * config.products.columns / 2 * phases;
    const std::vector<Ring>& rings = tables.depth.rings;
    const int64_t empty = std::count_if(rings.begin(), rings.end(), [](const Ring& ring) { return ring.length == 0; });
    return 2 * config.products.m_tiles * phases * config.tile.channels / 4 * (tables.depth.slots + empty);
}

} // namespace

Prelude kernel_constants(const Problem& problem, const TapTables& tables, const Config& config) {
    Prelude prelude;
    prelude.add("#include \"shared/tensorcore.cuh\"\nusing namespace tconv3d::cuda::tensorcore;\n");
    add_problem(prelude, problem, tables, config);
    config.print(prelude);
    add_registers(prelude, tables, config);
    prelude.array("kInPlaneD", tables.inputs[0].first);
    prelude.array("kInPlaneH", tables.inputs[1].first);
    prelude.array("kInPlaneW", tables.inputs[2].first);
    add_rings(prelude, tables);
    add_depth_taps(prelude, tables.depth);
    add_products(prelude, tables, config);
    add_tap_groups(prelude, tables.plane, config);
    add_passes(prelude, tables);
    prelude.constant("kRowPhases", tables.plane.row_phases);
    prelude.array("kPhaseAccumulator", tables.plane.accumulator);
    prelude.constant("kAccumulatorPhases", tables.plane.accumulators);
    add_tap_rows(prelude, problem, tables, config);
    return prelude;
}

KernelRequest kernel_request(const Problem& problem, const TapTables& tables, const Config& config,
                             const Epilogue& epilogue, const ResultForm& form) {
    Prelude prelude = kernel_constants(problem, tables, config);
    prelude.add(wgmma_source(problem, tables, config))
        .add(mma_source(problem))
        .flag("kAddsAbsentBias", !config.gathered())
        .add(output_source(problem, epilogue, form, thread_outputs(tables, config)));
    const std::string entry = config.gathered() ? "gathered" : "streamed";
    return {entry + ".cuh", prelude.str(), entry, config.pipeline.shared_bytes};
}

TileGeometry tile_geometry(const Problem& problem, const Config& config) {
    const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
    const auto by = [](int64_t divisor) { return reciprocal(static_cast<uint32_t>(divisor)); };
    TileGeometry geometry{};
    geometry.tile_h = narrow(config.tile.h);
    geometry.tile_w = narrow(config.tile.w);
    geometry.images = narrow(config.tile.images);
    geometry.rows = narrow(config.plane.rows);
    geometry.pitch = narrow(config.plane.pitch);
    geometry.tail = narrow(config.plane.tail);
    geometry.plane_pitch = narrow(config.plane.plane_pitch);
    geometry.by_pitch = by(config.plane.pitch);
    geometry.by_image = by(config.image_pitch());
    geometry.raw_rows = narrow(config.input.box_rows);
    geometry.raw_pitch = narrow(config.input.raw_pitch);
    geometry.raw_bytes = narrow(config.input.has_planes() ? box_bytes(problem, config) : 0);
    geometry.warpgroups = narrow(config.products.warpgroups);
    return geometry;
}

TensorCoreArguments kernel_arguments(const Problem& problem, const TapTables& tables, const Config& config) {
    const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
    const Extents in = in_extents(problem), out = out_extents(problem);
    const int64_t depth = item_depth(tables, config);
    TensorCoreArguments args{};
    args.out_slice = out[1] * out[2];
    args.batch = narrow(problem.batch);
    args.in_extents = {narrow(in[0] / config.tile.slices), narrow(in[1]), narrow(in[2])};
    args.in_slices = narrow(is_fwd(problem) ? args.in_extents.d : tables.inputs[0].elements(in[0]));
    args.out_extents = {narrow(out[0]), narrow(out[1]), narrow(out[2])};
    args.grid = {narrow(depth), narrow(cuts(tables.q_count[1], config.tile.h)),
                 narrow(cuts(tables.q_count[2], config.tile.w)),
                 narrow(cuts(out_channels(problem), config.tile.channels))};
    const int64_t rest = item_count(problem, tables, config) - config.schedule.whole_items;
    args.shares = {narrow(config.schedule.whole_items), narrow(rest * depth), narrow(config.schedule.share)};
    if (config.any_size()) args.geometry = tile_geometry(problem, config);
    return args;
}

} // namespace tconv3d::cuda::tensorcore
