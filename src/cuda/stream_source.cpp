#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "cuda/epilogue_source.hpp"
#include "cuda/prelude.hpp"
#include "cuda/stream.hpp"

namespace tconv3d::cuda {

namespace {

constexpr int64_t kChannelStep = kStreamChannelStep;

/// `{%0, %1, …}`
std::string operands(int64_t first, int64_t count) {
    std::string text = "{";
    for (int64_t i = 0; i < count; ++i) text += (i ? ", %" : "%") + std::to_string(first + i);
    return text + "}";
}

/// The wrapper of one wgmma on `count` accumulators from `first`: its text names every register.
std::string wgmma_source(const StreamTables& tables, int64_t n, const StreamRun& run) {
    const auto number = [](int64_t value) { return std::to_string(value); };
    const int64_t sums = run.count * n / 2, begin = run.first * n / 2;
    std::string text =
        "__device__ __forceinline__ void wgmma_" + number(run.first) + "_" + number(run.count) + "(float (&sums)[" +
        number(tables.accumulators * n / 2) + "], const unsigned (&a)[4], unsigned long long b) {\n" +
        "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n" + number(run.count * n) + "k8.f32.tf32.tf32 " +
        operands(0, sums) + ", " + operands(sums, 4) + ", %" + number(sums + 4) + ", 1, 1, 1;\" : ";
    for (int64_t i = 0; i < sums; ++i) text += (i ? ", \"+f\"(sums[" : "\"+f\"(sums[") + number(begin + i) + "])";
    return text + " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));\n}\n";
}

/// wgmma<Run>(sums, a, b): the run's wgmma.
std::string wgmma_sources(const StreamTables& tables, int64_t n) {
    std::set<std::pair<int64_t, int64_t>> made;
    std::string wrappers, choice;
    int64_t index = 0;
    for (const StreamOffset& offset : tables.offsets) {
        for (const StreamRun& run : offset.runs) {
            if (made.insert({run.first, run.count}).second) wrappers += wgmma_source(tables, n, run);
            choice += "    if constexpr (Run == " + std::to_string(index++) + ") wgmma_" + std::to_string(run.first) +
                      "_" + std::to_string(run.count) + "(sums, a, b);\n";
        }
    }
    return wrappers +
           "template <int Run, int Sums>\n__device__ __forceinline__ void wgmma(float (&sums)[Sums], const unsigned "
           "(&a)[4], "
           "unsigned long long b) {\n" +
           choice + "}\n";
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
}

void add_uses(Prelude& prelude, const StreamTables& tables, const StreamTile& tile) {
    std::vector<int64_t> words, run_begin = {0}, run_use, tap_h, tap_w;
    for (const StreamOffset& offset : tables.offsets) {
        words.push_back((offset.delta_h - tables.delta_min[1]) * tile.plane_pitch + offset.delta_w -
                        tables.delta_min[2]);
        int64_t first_use = static_cast<int64_t>(tap_h.size());
        for (const StreamUse& use : offset.uses) {
            tap_h.push_back(use.tap_h);
            tap_w.push_back(use.tap_w);
        }
        for (const StreamRun& run : offset.runs) {
            run_use.push_back(first_use);
            first_use += run.count;
        }
        run_begin.push_back(static_cast<int64_t>(run_use.size()));
    }
    prelude.constant("kOffsets", static_cast<int64_t>(words.size()));
    prelude.constant("kUses", static_cast<int64_t>(tap_h.size()));
    // Enough wgmmas between two waits to keep the tensor cores busy, few enough fragments to stay in registers.
    const int64_t per_offset = cuts(static_cast<int64_t>(tap_h.size()), static_cast<int64_t>(words.size()));
    prelude.constant("kOffsetGroup",
                     std::min<int64_t>(per_offset == 1 ? 3 : cuts(6, per_offset), static_cast<int64_t>(words.size())));
    prelude.array("kOffsetWords", words);
    prelude.array("kRunBegin", run_begin);
    prelude.array("kRunUse", run_use);
    prelude.array("kUseTapH", tap_h);
    prelude.array("kUseTapW", tap_w);
    prelude.array("kAccPhase", tables.accumulator);
    prelude.constant("kAccPhases", tables.accumulators);
    prelude.constant("kHwPhases", static_cast<int64_t>(tables.accumulator.size()));
}

/// What both kernels of the family are told.
Prelude constants(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    Prelude prelude;
    prelude.constant("kCi", problem.src_channels_per_group())
        .constant("kCo", problem.dst_channels_per_group())
        .constant("kGroups", problem.groups)
        .constant("kChannelStep", kChannelStep)
        .constant("kChunks", cuts(problem.src_channels_per_group(), kChannelStep))
        .constant("kCoTile", tile.dst_channels)
        .constant("kCoTiles", cuts(problem.dst_channels_per_group(), tile.dst_channels))
        .constant("kN", tables.slots * tile.dst_channels)
        .constant("kMTiles", tile.m_tiles)
        .constant("kConsumers", kStreamConsumers)
        .constant("kConsumerRegisters", 232)
        .constant("kTileH", tile.h)
        .constant("kTileW", tile.w)
        .constant("kPlaneRows", tile.plane_rows)
        .constant("kPlanePitch", tile.plane_pitch)
        .constant("kStages", tile.stages)
        .extents("kKernel", problem.kernel)
        .extents("kStride", problem.stride)
        .extents("kPadding", problem.padding)
        .extents("kDilation", problem.dilation)
        .extents("kDeltaMin", tables.delta_min);
    add_rings(prelude, tables);
    add_uses(prelude, tables, tile);
    return prelude;
}

} // namespace

int64_t stream_packed_elements(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    const int64_t channel_tiles = cuts(problem.dst_channels_per_group(), tile.dst_channels);
    const int64_t chunks = cuts(problem.src_channels_per_group(), kChannelStep);
    return problem.groups * channel_tiles * tables.rotations * chunks * tables.uses() * tables.slots *
           tile.dst_channels * kChannelStep;
}

KernelRequest stream_pack_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    Prelude prelude = constants(problem, tables, tile);
    prelude.constant("kPacked", stream_packed_elements(problem, tables, tile));
    return {"stream_pack.cuh", prelude.str(), "stream_pack", 0};
}

KernelRequest stream_request(const Problem& problem, const StreamTables& tables, const StreamTile& tile,
                             const Epilogue& epilogue, bool has_bias, bool saves_preactivation) {
    Prelude prelude = constants(problem, tables, tile);
    prelude.add(wgmma_sources(tables, tables.slots * tile.dst_channels))
        .add(output_source(problem, epilogue, has_bias, saves_preactivation));
    return {"stream.cuh", prelude.str(), "stream_fwd", tile.shared_bytes};
}

} // namespace tconv3d::cuda
