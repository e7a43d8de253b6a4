#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "cuda/epilogue_source.hpp"
#include "cuda/prelude.hpp"
#include "cuda/stream.hpp"

namespace tconv3d::cuda {

namespace {

/// `{%0, %1, …}`
std::string operands(int64_t first, int64_t count) {
    std::string text = "{";
    for (int64_t i = 0; i < count; ++i) text += (i ? ", %" : "%") + std::to_string(first + i);
    return text + "}";
}

/// The type of the tensor cores' operands.
const char* operand_type(const Problem& problem) {
    if (problem.dtype == DType::bf16) return "bf16";
    return problem.dtype == DType::f16 ? "f16" : "tf32";
}

/// The wrapper of one wgmma on `count` accumulators from `first`: its text names every register.
std::string wgmma_source(const Problem& problem, const StreamTables& tables, int64_t n, const StreamRun& run) {
    const auto number = [](int64_t value) { return std::to_string(value); };
    const int64_t sums = run.count * n / 2, begin = run.first * n / 2;
    const std::string type = operand_type(problem);
    const bool transposable = type != "tf32"; // the instruction then says that its operands are not
    std::string text =
        "__device__ __forceinline__ void wgmma_" + number(run.first) + "_" + number(run.count) + "(float (&sums)[" +
        number(tables.accumulators * n / 2) + "], unsigned long long a, unsigned long long b) {\n" +
        "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n" + number(run.count * n) + "k" +
        number(stream_channel_step(problem)) + ".f32." + type + "." + type + " " + operands(0, sums) + ", %" +
        number(sums) + ", %" + number(sums + 1) + ", 1, 1, 1" + (transposable ? ", 0, 0" : "") + ";\" : ";
    for (int64_t i = 0; i < sums; ++i) text += (i ? ", \"+f\"(sums[" : "\"+f\"(sums[") + number(begin + i) + "])";
    return text + " : \"l\"(a), \"l\"(b));\n}\n";
}

/// wgmma<Run>(sums, a, b): the run's wgmma. Nothing calls it where the other engine multiplies.
std::string wgmma_sources(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const int64_t n = tables.slots * tile.dst_channels;
    std::set<std::pair<int64_t, int64_t>> made;
    std::string wrappers, choice;
    int64_t index = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            if (made.insert({run.first, run.count}).second) wrappers += wgmma_source(problem, tables, n, run);
            choice += "    if constexpr (Run == " + std::to_string(index++) + ") wgmma_" + std::to_string(run.first) +
                      "_" + std::to_string(run.count) + "(sums, a, b);\n";
        }
    }
    const std::string head = "template <int Run, int Sums>\n__device__ __forceinline__ void wgmma(float (&sums)[Sums], "
                             "unsigned long long a, unsigned long long b)";
    if (tile.engine != StreamEngine::wgmma) return head + " {}\n";
    return wrappers + head + " {\n" + choice + "}\n";
}

/// multiply_fragments(c, a, b): one mma.sync.
std::string mma_source(const Problem& problem) {
    return std::string("#include \"ptx.cuh\"\n"
                       "__device__ __forceinline__ void multiply_fragments(float (&c)[4], const unsigned (&a)[4], "
                       "const unsigned (&b)[2]) {\n    ptx::mma_") +
           operand_type(problem) + "(c, a, b);\n}\n";
}

void add_rings(Prelude& prelude, const StreamTables& tables) {
    std::vector<int64_t> length, start, delta, entry = {0};
    for (const Ring& ring : tables.rings) {
        length.push_back(ring.length);
        start.push_back(ring.start);
        delta.push_back(ring.delta_max);
        entry.push_back(entry.back() + std::max<int64_t>(2 * ring.length - 1, 0));
    }
    prelude.constant("kDPhases", static_cast<int64_t>(tables.rings.size()));
    prelude.array("kRingLength", length);
    prelude.array("kRingStart", start);
    prelude.array("kRingDelta", delta);
    prelude.array("kRingEntry", entry);
    prelude.constant("kRotations", tables.rotations);
    // A multiple of the rotations that makes every slice that is passed positive.
    prelude.constant("kRotationRound", round_up(std::max<int64_t>(-tables.delta_min[0], 0), tables.rotations));
}

void add_runs(Prelude& prelude, const StreamTables& tables, const StreamTile& tile, int64_t first_delta) {
    std::vector<int64_t> offsets, uses, firsts, counts;
    int64_t use = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            offsets.push_back((offset.delta_h - first_delta) * tile.pitch + offset.delta_w - tables.delta_min[2]);
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
    std::vector<int64_t> group_run, group_use;
    for (const TapGroup& group : stream_tap_groups(tables, tile.tap_groups)) {
        group_run.push_back(group.first_run);
        group_use.push_back(group.first_use);
    }
    prelude.constant("kTapGroups", static_cast<int64_t>(group_run.size()) - 1);
    prelude.array("kGroupRun", group_run);
    prelude.array("kGroupUse", group_use);
}

void add_passes(Prelude& prelude, const StreamTables& tables, const StreamTile& tile, int64_t first_delta) {
    std::vector<int64_t> offsets, set_phase, set_pass;
    for (const StreamPass& pass : tables.passes)
        offsets.push_back((pass.delta_h + first_delta - tables.delta_min[1]) * tile.pitch);
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
    int64_t first_delta = tables.offsets.front().delta_h;
    for (const StreamOffset& offset : tables.offsets) first_delta = std::min(first_delta, offset.delta_h);
    add_runs(prelude, tables, tile, first_delta);
    add_passes(prelude, tables, tile, first_delta);
    prelude.constant("kRowPhases", tables.row_phases(problem));
    prelude.array("kAccPhase", tables.accumulator);
    prelude.constant("kAccPhases", tables.accumulators);
}

void add_tile(Prelude& prelude, const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const Extents dst = problem.dst();
    // Registers change hands between the warpgroups. Together they have no more than the kernel starts with, 168 for
    // each of 384 threads: more would wait for ever. Those that read src need some for addresses.
    constexpr int64_t kAllRegisters = 3 * 168;
    const int64_t sums = stream_sums(tables, tile);
    const bool arranges = tile.source != StreamSource::cores;
    const int64_t consumer_registers =
        tile.source == StreamSource::global ? (sums <= 140 ? 208 : 224) : (arranges && sums <= 160 ? 224 : 232);
    prelude.flag("kWgmma", tile.engine == StreamEngine::wgmma)
        .constant("kSource", static_cast<int64_t>(tile.source))
        .constant("kStore", static_cast<int64_t>(tile.store))
        .constant("kLaneChannels", stream_lane_channels(problem, tile))
        .constant("kStagedBytes", tile.staged_bytes)
        .constant("kStagedColumns", tile.staged_columns)
        .constant("kStagedBuffers", StreamTile::kStagedBuffers)
        .flag("kSmallDst", problem.batch * problem.dst_channels * dst[0] * dst[1] * dst[2] < int64_t{1} << 31)
        .flag("kAligned", dst[2] % problem.stride[2] == 0)
        .constant("kLastRows", dst[1] - (dst[1] - 1) / problem.stride[1] * problem.stride[1])
        .constant("kLastColumns", dst[2] - (dst[2] - 1) / problem.stride[2] * problem.stride[2])
        .constant("kCoTile", tile.dst_channels)
        .constant("kCoTiles", cuts(problem.dst_channels_per_group(), tile.dst_channels))
        .constant("kMTiles", tile.m_tiles)
        .constant("kConsumers", kStreamConsumers)
        .constant("kConsumerRegisters", consumer_registers)
        .constant("kProducerRegisters", kAllRegisters - 2 * consumer_registers)
        .constant("kImages", tile.images)
        .constant("kTileH", tile.h)
        .constant("kTileW", tile.w)
        .constant("kBlocksH", tile.blocks_h)
        .constant("kBlocksW", tile.blocks_w)
        .constant("kCoreStride", tile.core_stride())
        .constant("kPlaneRows", tile.rows)
        .constant("kPitch", tile.pitch)
        .constant("kPositions", tile.positions)
        .constant("kSteps", tile.steps)
        .constant("kStages", tile.stages)
        .constant("kWeightStages", tile.weight_stages)
        .constant("kWeightStageBytes", tile.weight_stage_bytes)
        .flag("kWindows", tile.windows)
        .constant("kRawAlign", 16 / bytes_per_element(problem.dtype))
        .constant("kRawPitch", tile.raw_pitch)
        .constant("kRawBytes", tile.raw_bytes)
        .constant("kRawStages", tile.raw_stages)
        .constant("kRawBoxBytes", stream_box_bytes(problem, tile))
        .constant("kWholeH", tile.source == StreamSource::whole ? problem.src[1] : 0)
        .constant("kWholeW", tile.source == StreamSource::whole ? problem.src[2] : 0);
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
        .constant("kN", tables.slots * tile.dst_channels)
        .extents("kKernel", problem.kernel)
        .extents("kStride", problem.stride)
        .extents("kPadding", problem.padding)
        .extents("kDilation", problem.dilation)
        .extents("kDeltaMin", tables.delta_min)
        .extents("kDeltaMax", tables.delta_max);
    add_tile(prelude, problem, tables, tile);
    add_rings(prelude, tables);
    add_taps(prelude, problem, tables, tile);
    return prelude;
}

KernelRequest stream_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                             const Epilogue& epilogue, bool has_bias, bool saves_preactivation) {
    Prelude prelude = stream_constants(problem, tables, tile);
    prelude.add(wgmma_sources(problem, tables, tile))
        .add(mma_source(problem))
        .add(output_source(problem, epilogue, has_bias, saves_preactivation));
    return {"stream.cuh", prelude.str(), "stream_fwd", tile.shared_bytes};
}

} // namespace tconv3d::cuda
