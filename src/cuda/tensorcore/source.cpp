#include <algorithm>
#include <string>

#include "cuda/source/output_source.hpp"
#include "cuda/source/prelude.hpp"
#include "cuda/tensorcore/config.hpp"
#include "cuda/tensorcore/wgmma_source.hpp"

namespace tconv3d::cuda {

namespace {

/// multiply_fragments(c, a, b): one mma.sync.
std::string mma_source(const Problem& problem) {
    return std::string("#include \"base/ptx.cuh\"\n"
                       "__device__ __forceinline__ void multiply_fragments(float (&c)[4], const unsigned (&a)[4], "
                       "const unsigned (&b)[2]) {\n    ptx::mma_") +
           stream_operand_type(problem) + "(c, a, b);\n}\n";
}

void add_rings(Prelude& prelude, const StreamTables& tables) {
    std::vector<int64_t> length, start, delta;
    for (const Ring& ring : tables.rings) {
        length.push_back(ring.length);
        start.push_back(ring.start);
        delta.push_back(ring.delta_max);
    }
    prelude.constant("kDPhases", static_cast<int64_t>(tables.rings.size()));
    prelude.array("kRingLength", length);
    prelude.array("kRingStart", start);
    prelude.array("kRingDelta", delta);
    prelude.constant("kRotations", tables.rotations);
    // A multiple of the rotations that makes every slice that is passed positive.
    prelude.constant("kRotationRound", round_up(std::max<int64_t>(-tables.delta_min[0], 0), tables.rotations));
}

void add_depth_taps(Prelude& prelude, const StreamTables& tables) {
    std::vector<int64_t> begin, taps, deltas;
    for (const StreamDepthTap& tap : tables.depth_taps) {
        while (static_cast<int64_t>(begin.size()) <= tap.phase) begin.push_back(static_cast<int64_t>(taps.size()));
        taps.push_back(tap.tap);
        deltas.push_back(tap.delta);
    }
    begin.resize(tables.rings.size() + 1, static_cast<int64_t>(taps.size()));
    prelude.array("kPhaseTapD", begin);
    prelude.array("kTapD", taps);
    prelude.array("kTapDelta", deltas);
}

void add_runs(Prelude& prelude, const StreamTables& tables, const StreamTile& tile) {
    std::vector<int64_t> offsets, uses, firsts, counts;
    int64_t use = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            offsets.push_back(stream_offset(tables, tile, offset));
            uses.push_back(use);
            firsts.push_back(run.first);
            counts.push_back(run.count);
            use += run.count;
        }
    }
    prelude.constant("kRuns", static_cast<int64_t>(uses.size()));
    prelude.array("kRunOffset", offsets);
    prelude.array("kRunUse", uses);
    prelude.array("kRunFirst", firsts);
    prelude.array("kRunCount", counts);
    std::vector<int64_t> group_run, group_use, adds;
    for (const TapGroup& group : tables.tap_groups(tile.tap_groups)) {
        group_run.push_back(group.first_run);
        group_use.push_back(group.first_use);
    }
    for (size_t group = 0; group + 1 < group_run.size(); ++group) {
        std::vector<int64_t> to(static_cast<size_t>(tables.accumulators), 0);
        for (int64_t run = group_run[group]; run < group_run[group + 1]; ++run)
            std::fill_n(to.begin() + firsts[static_cast<size_t>(run)], counts[static_cast<size_t>(run)], 1);
        adds.insert(adds.end(), to.begin(), to.end());
    }
    prelude.constant("kTapGroups", static_cast<int64_t>(group_run.size()) - 1);
    prelude.array("kGroupRun", group_run);
    prelude.array("kGroupUse", group_use);
    prelude.array("kGroupAdds", adds);
}

void add_passes(Prelude& prelude, const StreamTables& tables, const StreamTile& tile) {
    std::vector<int64_t> offsets, set_phase, set_pass;
    for (const StreamPass& pass : tables.passes)
        offsets.push_back((pass.delta_h + tables.first_delta_h() - tables.delta_min[1]) * tile.row_pitch());
    for (const StreamRowSet& set : tables.row_sets) {
        set_phase.push_back(set.phase);
        set_pass.push_back(set.first_pass);
    }
    set_pass.push_back(tables.pass_count());
    prelude.constant("kPasses", tables.pass_count());
    prelude.constant("kRowSets", static_cast<int64_t>(tables.row_sets.size()));
    prelude.array("kPassOffset", offsets);
    prelude.array("kSetPhase", set_phase);
    prelude.array("kSetPass", set_pass);
    prelude.constant("kUses", tables.uses());
}

void add_taps(Prelude& prelude, const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    add_runs(prelude, tables, tile);
    add_passes(prelude, tables, tile);
    prelude.constant("kRowPhases", tables.row_phases(problem));
    prelude.array("kAccPhase", tables.accumulator);
    prelude.constant("kAccPhases", tables.accumulators);
}

/// Where the weights of a tap lie in a stage that a CTA packs for itself: rows before them. Rings have one slot each,
/// and every tap has one use.
void add_tap_rows(Prelude& prelude, const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    std::vector<int64_t> rows(static_cast<size_t>(problem.taps()));
    int64_t row = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamUse& use : offset.uses) {
            for (size_t r = 0; r < tables.rings.size(); ++r) {
                const Ring& ring = tables.rings[r];
                if (ring.length == 0) continue;
                const int64_t reach = static_cast<int64_t>(r) + problem.padding[0] - ring.delta_max * problem.stride[0];
                const int64_t tap_d = reach / problem.dilation[0];
                rows[static_cast<size_t>((tap_d * problem.kernel[1] + use.tap_h) * problem.kernel[2] + use.tap_w)] =
                    row;
                row += tile.dst_channels;
            }
        }
    }
    prelude.array("kTapRow", rows);
}

void add_tile(Prelude& prelude, const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const Extents dst = problem.dst();
    // Registers change hands between the warpgroups. Together they have no more than the kernel starts with, 168 for
    // each of 384 threads, 128 of 512: more would wait for ever. Those that read src need some for addresses.
    const int64_t all_registers = tile.pieces ? 4 * 128 : 3 * 168, sender_registers = tile.pieces ? 48 : 0;
    const int64_t sums = stream_sums(tables, tile);
    const bool gathered = tables.form == StreamForm::gather;
    const bool arranges = tile.source != StreamSource::channels;
    const int64_t consumer_registers = tile.pieces                           ? 200
                                       : gathered                            ? (sums <= 120 ? 208
                                                                                : arranges  ? 216
                                                                                            : 224)
                                       : tile.source == StreamSource::global ? (sums <= 140 ? 208 : 224)
                                                                             : (arranges && sums <= 160 ? 224 : 232);
    prelude.flag("kWgmma", tile.engine == StreamEngine::wgmma)
        .constant("kSource", static_cast<int64_t>(tile.source))
        .constant("kStore", static_cast<int64_t>(tile.store))
        .constant("kLaneChannels", stream_lane_channels(problem, tile))
        .constant("kStagedBytes", tile.staged_bytes)
        .constant("kStagedColumns", tile.staged_columns)
        .constant("kStagedBuffers", StreamTile::kStagedBuffers)
        .flag("kSmallDst", problem.batch * problem.dst_channels * dst[0] * dst[1] * dst[2] < int64_t{1} << 31)
        .flag("kAligned", dst[2] % problem.stride[2] == 0)
        .flag("kGathered", gathered)
        .flag("kKeeps", tile.keeps)
        .flag("kTrades", tile.trades)
        .flag("kSeams", tile.seams)
        .flag("kPieces", tile.pieces)
        .flag("kContiguous", gathered && gather_is_contiguous(problem, tile))
        .constant("kLastRows", dst[1] - (dst[1] - 1) / problem.stride[1] * problem.stride[1])
        .constant("kLastColumns", dst[2] - (dst[2] - 1) / problem.stride[2] * problem.stride[2])
        .constant("kCoTile", tile.dst_channels)
        .constant("kCoTiles", cuts(problem.dst_channels_per_group(), tile.dst_channels))
        .constant("kMTiles", tile.m_tiles)
        .constant("kConsumers", kStreamConsumers)
        .constant("kBusyConsumers", tile.busy)
        .constant("kConsumerRegisters", consumer_registers)
        .constant("kProducerRegisters", all_registers - sender_registers - 2 * consumer_registers)
        .constant("kSenderRegisters", sender_registers)
        .constant("kImages", tile.images)
        .constant("kSlices", tile.slices)
        .constant("kTileH", tile.h)
        .constant("kTileW", tile.w)
        .constant("kBlocksH", tile.blocks_h)
        .constant("kBlocksW", tile.blocks_w)
        .constant("kCoreStride", tile.core_stride())
        .constant("kPlaneRows", tile.rows)
        .constant("kPitch", tile.pitch)
        .constant("kRowPitch", tile.row_pitch())
        .constant("kImagePitch", tile.image_pitch())
        .constant("kTail", tile.tail)
        .constant("kPositions", tile.positions)
        .constant("kSteps", tile.steps)
        .constant("kSummedSteps", tile.summed_steps)
        .constant("kStages", tile.stages)
        .constant("kWeightStages", tile.weight_stages)
        .constant("kWeightStageBytes", tile.weight_stage_bytes)
        .flag("kTurned", tile.turned)
        .flag("kOwnWeights", tile.own_weights)
        .constant("kRawAlign", 16 / bytes_per_element(problem.dtype))
        .constant("kRawPitch", tile.raw_pitch)
        .constant("kRawBytes", tile.raw_bytes)
        .constant("kRawStages", tile.raw_stages)
        .constant("kOverread", StreamTile::kOverread)
        .constant("kRawBoxBytes", stream_raw_bytes(problem, tile))
        .constant("kWholeH", problem.src[1])
        .constant("kWholeW", problem.src[2])
        .constant("kRunRows", tile.run_rows)
        .constant("kRunBoxes", tile.run_boxes);
}

} // namespace

Prelude stream_constants(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    Prelude prelude;
    prelude.flag("kChannelsLast", problem.channels_last())
        .constant("kCi", problem.src_channels_per_group())
        .constant("kCo", problem.dst_channels_per_group())
        .constant("kGroups", problem.groups)
        .constant("kChannelStep", stream_channel_step(problem))
        .constant("kParts", stream_parts(problem))
        .constant("kN", tile.columns)
        .constant("kWeightRows", tables.slots * tile.dst_channels)
        .extents("kKernel", problem.kernel)
        .extents("kStride", problem.stride)
        .extents("kPadding", problem.padding)
        .extents("kDilation", problem.dilation)
        .extents("kDeltaMin", tables.delta_min)
        .extents("kDeltaMax", tables.delta_max);
    add_tile(prelude, problem, tables, tile);
    add_rings(prelude, tables);
    add_depth_taps(prelude, tables);
    add_taps(prelude, problem, tables, tile);
    if (tile.own_weights) {
        add_tap_rows(prelude, problem, tables, tile);
    } else {
        prelude.array("kTapRow", {0}); // its reader is compiled all the same
    }
    return prelude;
}

KernelRequest stream_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                             const Epilogue& epilogue, bool has_bias, bool saves_preactivation) {
    Prelude prelude = stream_constants(problem, tables, tile);
    prelude.add(stream_wgmmas(problem, tables, tile))
        .add(mma_source(problem))
        .add(output_source(problem, epilogue, has_bias, saves_preactivation));
    const char* source = tables.form == StreamForm::gather ? "gathered.cuh" : "streamed.cuh";
    return {source, prelude.str(), "stream_fwd", tile.shared_bytes};
}

} // namespace tconv3d::cuda
