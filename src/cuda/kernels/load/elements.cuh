#pragma once

// How warps rearrange input element by element: channel planes of fp32 that a stride divides among input planes, and
// ranges (see load/raw_lines.cuh).
//
// A lane takes an element of a row, in all channels of a stage. Where the element lies and where it belongs is the same
// for all stages of a work item: each thread keeps both in a table in shared memory, an entry for each of its elements,
// and reads no other thread's entries.
#include "load/ranges.cuh"
#include "load/raw_lines.cuh"

namespace {

constexpr uint32_t kNoElement = 0xffffffff; // the entry of an element that no tap reads
/// Whether taps read all elements, so that each has an entry.
constexpr bool kAllElements = !kWholeRows && kStagedPlanes == kInStrideH * kInStrideW;

/// Elements of a row of a raw stage that the table lists.
__device__ __forceinline__ int element_columns(const Geometry& geometry) {
    return kWholeRows ? kInW : (geometry.pitch() - 1) * kInStrideW + kInPlaneW[kInPlanesW - 1] + 1;
}

/// How often the table is gone through for a stage. Ranges of another image begin at another element of 16 bytes, so
/// that each image has a turn of its own.
__device__ __forceinline__ int element_turns(const Geometry& geometry) {
    return kRanges ? geometry.images() : 1;
}

/// Elements that the table lists.
__device__ __forceinline__ int element_count(const Geometry& geometry) {
    return geometry.images() / element_turns(geometry) * geometry.raw_rows() * element_columns(geometry);
}

/// The entry of an element: in the high half, how many elements of its channel lie before it in the raw stage; in the
/// low half, its position in the stage.
__device__ __forceinline__ uint32_t element_entry(const InputWalk& walk, const InputRows& rows, uint32_t element) {
    const Geometry geometry(walk.args);
    const uint32_t columns = element_columns(geometry);
    const RawLine line(geometry, element / columns);
    const int column = element % columns;
    const PlaneElement<kInStrideW> w(kInPlaneW, column - kFirstColumn);
    if (!line.exists() || !w.below(geometry.pitch())) return kNoElement;
    uint32_t from;
    if constexpr (kRanges) {
        const int at_h = first_row(walk.item()) + line.row, at_w = first_column(walk.item()) + column;
        const int in_w = walk.args.in_extents.w;
        const bool inside = at_h >= rows.begin && at_h < rows.end && at_w >= 0 && at_w < in_w;
        from = inside ? (at_h - rows.begin) * in_w + at_w : raw_zeros(geometry);
    } else {
        from = line.bytes() / kRawElementBytes + column + (kWholeRows ? 0 : raw_shift(walk.item()));
    }
    return from << 16 | (line.position() + w.place * geometry.plane_pitch() + w.position);
}

/// The entries of a thread. They are computed again when a work item lies elsewhere in the plane than the one before.
class ElementTable {
public:
    __device__ __forceinline__ ElementTable(const Pipeline& pipe, int thread) : table_(pipe.elements + thread * 4) {}
    /// Called for every stage, before its entries are read.
    __device__ __forceinline__ void enter(const InputWalk& walk, const InputRows& rows, int thread) {
        const Item& item = walk.item();
        if (item.q_h == q_h_ && item.q_w == q_w_) return;
        q_h_ = item.q_h;
        q_w_ = item.q_w;
        const int elements = element_count(Geometry(walk.args));
        for (int i = thread; i < elements; i += kRearrangingThreads)
            ptx::store_shared(table_ + (i - thread) * 4, element_entry(walk, rows, i));
    }
    __device__ __forceinline__ uint32_t entry(int turn) const {
        return ptx::load_shared(table_ + turn * (kRearrangingThreads * 4));
    }

private:
    uint32_t table_;
    int q_h_ = -1, q_w_ = -1;
};

/// Where the channels of the first core matrix begin in a raw stage. Those of the next core matrix are `core_bytes`
/// behind them.
struct RawChannels {
    uint32_t at[kCoreChannels];
    int core_bytes; // from one core matrix to the next
    __device__ __forceinline__ RawChannels(const InputWalk& walk, const InputRows& rows, uint32_t raw, int image) {
        const Geometry geometry(walk.args);
        core_bytes = kCoreChannels * geometry.raw_pitch() * kRawElementBytes;
#pragma unroll
        for (int c = 0; c < kCoreChannels; ++c) at[c] = raw + c * geometry.raw_pitch() * kRawElementBytes;
        if constexpr (kRanges) {
            const RangeShifts shifts(walk, rows, image);
#pragma unroll
            for (int c = 0; c < kCoreChannels; ++c)
                at[c] += image * raw_image_bytes(geometry) + shifts.of[c] * kRawElementBytes;
        }
    }
};

// Whether the last stage of a slice has channels that do not exist. TMA puts zeros there, but a range brings none.
constexpr bool kLacksChannels = kRanges && kInChannels % (kChunks == 1 ? kFilledCores * kCoreChannels : kStageChannels);

/// The row of a core matrix that an element makes, `bytes` behind where each channel begins. Channels from `count` on
/// do not exist.
__device__ __forceinline__ CoreRow row_of_element(const RawChannels& channels, uint32_t bytes, int core, int count) {
    using Element = typename Unsigned<kRawElementBytes>::Type;
    return make_row([&](int c) -> uint32_t {
        Element element;
        ptx::load_shared(element, channels.at[c] + bytes + core * channels.core_bytes);
        return !kLacksChannels || c < count ? static_cast<uint32_t>(element) : 0u;
    });
}

/// Rearranges a stage by the table. All loads of some core matrices come before their first store.
__device__ __forceinline__ void rearrange_elements(const InputWalk& walk, ElementTable& table, uint32_t to,
                                                   uint32_t raw, int thread) {
    constexpr int kMostAtOnce = kWordChannels == 2 || kParts == 2 ? 2 : 4; // as registers allow
    constexpr int kAtOnce = kFilledCores < kMostAtOnce ? kFilledCores : kMostAtOnce;
    const Geometry geometry(walk.args);
    const InputRows rows(walk);
    const int elements = element_count(geometry);
    const int left = kInChannels - walk.chunk() * kStageChannels; // channels from the stage's first on
    table.enter(walk, rows, thread);
#pragma unroll 1
    for (int image = 0; image < element_turns(geometry); ++image) {
        const RawChannels channels(walk, rows, raw, image);
        const bool exists = !kRanges || geometry.images() == 1 || walk.item().n + image < walk.args.batch;
        uint32_t next = thread < elements ? table.entry(0) : kNoElement;
#pragma unroll 1
        for (int i = thread, turn = 1; i < elements; i += kRearrangingThreads, ++turn) {
            const uint32_t entry = next;
            if (i + kRearrangingThreads < elements) next = table.entry(turn);
            if (!kAllElements && entry == kNoElement) continue;
            const uint32_t from = (exists ? entry >> 16 : raw_zeros(geometry)) * kRawElementBytes;
            const uint32_t position_to = to + ((entry & 0xffff) + image * geometry.image_pitch()) * 16;
#pragma unroll 1
            for (int core = 0; core < kFilledCores; core += kAtOnce) {
                CoreRow found[kAtOnce];
#pragma unroll
                for (int j = 0; j < kAtOnce; ++j)
                    if (core + j < kFilledCores)
                        found[j] = row_of_element(channels, from, core + j, left - (core + j) * kCoreChannels);
#pragma unroll
                for (int j = 0; j < kAtOnce; ++j)
                    if (core + j < kFilledCores) store_core_row(position_to + (core + j) * kPlaneBytes, found[j]);
            }
        }
    }
}

} // namespace
