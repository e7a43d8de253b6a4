#include "cuda/stream.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tconv3d/error.hpp"

namespace tconv3d::cuda {

namespace {

constexpr int64_t kConsumers = 2;
constexpr int64_t kChannelStep = 8;

int64_t cuts(int64_t whole, int64_t part) {
    return (whole + part - 1) / part;
}

/// C++ constants as text.
class Prelude {
public:
    void constant(const char* name, int64_t value) { text_ << "constexpr int " << name << " = " << value << ";\n"; }

    /// An array that device code may also index at run time.
    void array(const char* name, const std::vector<int64_t>& values) {
        text_ << "__device__ constexpr int " << name << "[] = {";
        for (size_t i = 0; i < values.size(); ++i) text_ << (i ? ", " : "") << values[i];
        text_ << "};\n";
    }

    void add(const std::string& text) { text_ << text; }
    std::string str() const { return text_.str(); }

private:
    std::ostringstream text_;
};

/// `{%0, %1, …}`
std::string operands(int64_t first, int64_t count) {
    std::string text = "{";
    for (int64_t i = 0; i < count; ++i) text += (i ? ", %" : "%") + std::to_string(first + i);
    return text + "}";
}

/// The wrapper of one wgmma: the number of registers in its text depends on n.
std::string wgmma_source(int64_t n) {
    const int64_t sums = n / 2;
    std::ostringstream text;
    text << "__device__ __forceinline__ void wgmma(float (&sums)[" << sums << "], const unsigned (&a)[4], "
         << "unsigned long long b) {\n    asm volatile(\"wgmma.mma_async.sync.aligned.m64n" << n << "k8.f32.tf32.tf32 "
         << operands(0, sums) << ", " << operands(sums, 4) << ", %" << sums + 4 << ", 1, 1, 1;\" : ";
    for (int64_t i = 0; i < sums; ++i) text << (i ? ", " : "") << "\"+f\"(sums[" << i << "])";
    text << " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));\n}\n";
    return text.str();
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
    std::vector<int64_t> words, begin = {0}, phase, tap_h, tap_w;
    for (const StreamOffset& offset : tables.offsets) {
        words.push_back((offset.delta_h - tables.delta_min[1]) * tile.plane_pitch + offset.delta_w - tables.delta_min[2]);
        for (const StreamUse& use : offset.uses) {
            phase.push_back(use.phase);
            tap_h.push_back(use.tap_h);
            tap_w.push_back(use.tap_w);
        }
        begin.push_back(static_cast<int64_t>(phase.size()));
    }
    prelude.constant("kOffsets", static_cast<int64_t>(words.size()));
    prelude.constant("kUses", static_cast<int64_t>(phase.size()));
    // Enough wgmmas between two waits to keep the tensor cores busy, few enough fragments to stay in registers.
    const int64_t per_offset = cuts(static_cast<int64_t>(phase.size()), static_cast<int64_t>(words.size()));
    prelude.constant("kOffsetGroup", std::min<int64_t>(cuts(3, per_offset), static_cast<int64_t>(words.size())));
    prelude.array("kOffsetWords", words);
    prelude.array("kUseBegin", begin);
    prelude.array("kUsePhase", phase);
    prelude.array("kUseTapH", tap_h);
    prelude.array("kUseTapW", tap_w);
    prelude.array("kAccPhase", tables.accumulator);
    prelude.constant("kAccPhases", tables.accumulators);
    prelude.constant("kHwPhases", static_cast<int64_t>(tables.accumulator.size()));
}

std::string constants(const Problem& problem, const StreamTables& tables, const StreamTile& tile) {
    Prelude prelude;
    prelude.constant("kCi", problem.src_channels_per_group());
    prelude.constant("kCo", problem.dst_channels_per_group());
    prelude.constant("kGroups", problem.groups);
    prelude.constant("kChannelStep", kChannelStep);
    prelude.constant("kChunks", cuts(problem.src_channels_per_group(), kChannelStep));
    prelude.constant("kCoTile", tile.dst_channels);
    prelude.constant("kCoTiles", cuts(problem.dst_channels_per_group(), tile.dst_channels));
    prelude.constant("kN", tables.slots * tile.dst_channels);
    prelude.constant("kMTiles", tile.m_tiles);
    prelude.constant("kConsumers", kConsumers);
    prelude.constant("kConsumerRegisters", 232);
    prelude.constant("kTileH", tile.h);
    prelude.constant("kTileW", tile.w);
    prelude.constant("kPlaneRows", tile.plane_rows);
    prelude.constant("kPlanePitch", tile.plane_pitch);
    prelude.constant("kStages", tile.stages);
    prelude.constant("kRoundInPlace", std::getenv("ST_NOROUND") ? 0 : 1);
    const char* const names[] = {"D", "H", "W"};
    for (size_t i = 0; i < 3; ++i) {
        prelude.constant((std::string("kKernel") + names[i]).c_str(), problem.kernel[i]);
        prelude.constant((std::string("kStride") + names[i]).c_str(), problem.stride[i]);
        prelude.constant((std::string("kPadding") + names[i]).c_str(), problem.padding[i]);
        prelude.constant((std::string("kDilation") + names[i]).c_str(), problem.dilation[i]);
        prelude.constant((std::string("kDeltaMin") + names[i]).c_str(), tables.delta_min[i]);
    }
    add_rings(prelude, tables);
    add_uses(prelude, tables, tile);
    return prelude.str();
}

} // namespace

std::string reject_stream(const Problem& problem, int sm) {
    if (sm != 90) return "wgmma needs compute capability 9.0, got " + std::to_string(sm / 10) + "." + std::to_string(sm % 10);
    if (problem.direction != Direction::fwd) return std::string("takes fwd, got ") + name(problem.direction);
    if (problem.dtype != DType::f32 || problem.math != MathMode::tf32) return "takes f32 data in tf32 math";
    if (problem.layout != Layout::ncdhw) return std::string("takes ncdhw, got ") + name(problem.layout);
    if (problem.src[2] % 4 != 0) return "TMA needs rows of a multiple of 16 bytes, got " + std::to_string(problem.src[2] * 4);
    if (problem.groups > 1 && problem.src_channels_per_group() % kChannelStep != 0) {
        return "groups need a multiple of 8 channels each, got " + std::to_string(problem.src_channels_per_group());
    }
    return "";
}

StreamLaunch plan_stream(const Problem& problem, const Epilogue&, int multiprocessors, int64_t shared_limit) {
    const StreamTables tables(problem);
    const StreamTile tile = choose_stream_tile(problem, tables, multiprocessors, shared_limit);
    if (tile.clocks <= 0) throw Error("no tile of the streamed kernel fits " + problem.str());
    StreamLaunch launch{tables, tile, {}, {}, 0, 0, 0, 0, 0};
    launch.tiles_h = cuts(tables.q_end[1] - tables.q_begin[1], tile.h);
    launch.tiles_w = cuts(tables.q_end[2] - tables.q_begin[2], tile.w);
    launch.channel_tiles = cuts(problem.dst_channels_per_group(), tile.dst_channels);
    launch.items = problem.batch * problem.groups * launch.channel_tiles * launch.tiles_h * launch.tiles_w * tile.segments;
    const int64_t chunks = cuts(problem.src_channels_per_group(), kChannelStep);
    launch.packed_elements = problem.groups * launch.channel_tiles * tables.rotations * chunks * tables.uses() *
                             tables.slots * tile.dst_channels * kChannelStep;
    const std::string shared = constants(problem, tables, tile);
    launch.pack = {"stream_pack.cuh", shared + "constexpr long long kPacked = " + std::to_string(launch.packed_elements) + ";\n",
                   "stream_pack", 0};
    launch.kernel = {"stream.cuh",
                     shared + wgmma_source(tables.slots * tile.dst_channels) +
                         "__device__ __forceinline__ float epilogue(float value, int) { return value; }\n",
                     "stream_fwd", tile.shared_bytes};
    return launch;
}

} // namespace tconv3d::cuda
