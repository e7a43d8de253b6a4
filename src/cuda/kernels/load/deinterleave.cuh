#pragma once

// How warps rearrange input whose elements do not simply follow one another: rows of bwd_data that a stride divides
// among input planes, and rows that come as ranges. With stride 2 along W:
//
//     a raw row       a b c d e f g h
//     staged planes   a c e g  and  b d f h     each a row of positions
//
// There are two ways. 16 bits from channel planes: ldmatrix gives a lane one element of each eight of a row, which all
// belong to one input plane (deinterleave_halves). Otherwise a lane moves element by element, by a table of where each
// lies and where it belongs (rearrange_elements).
//
// Neighbouring lanes have neighbouring elements of a row, so that their loads are in different banks. So are their
// stores: the input planes along W begin at different positions modulo the eight that fill all banks (kInPlanePitch).
#include "load/core_rows.cuh"
#include "load/ranges.cuh"

namespace {

/// Whether elements that are eight apart in a raw row belong to the same input plane.
constexpr bool kLanesStay =
    8 % kInStrideW == 0 && (kSource == Source::rows || (kSource == Source::whole_planes && kInW % 8 == 0));
constexpr bool kDeinterleavesHalves = kHasPlanes && kDeinterleaves && kWordChannels == 2 && kLanesStay;

// ---- Core matrices ----

constexpr int kCoreChannels = 4 * kWordChannels;
constexpr int kCores = 2 * kSteps; // of a position

/// Core matrices of a position that get elements. Where a group has fewer channels than a stage has room for, the
/// others are spare and hold zeros.
constexpr int kFilledCores = (kDeinterleavesHalves || kRearrangesElements) && kChunks == 1
                                 ? (kInChannels + kCoreChannels - 1) / kCoreChannels
                                 : kCores;

/// Puts zeros into the spare core matrices of all stages, once.
__device__ __forceinline__ void clear_spare_cores(const Pipeline& pipe) {
    const uint32_t zeros[4] = {};
    constexpr int kSpareBytes = (kCores - kFilledCores) * kPlaneBytes;
#pragma unroll 1
    for (int at = threadIdx.x * 16; at < kStages * kParts * kSpareBytes; at += kThreads * 16) {
        const int part = at / (kSpareBytes > 0 ? kSpareBytes : 1);
        ptx::store_shared(pipe.in.data + at + (part + 1) * (kFilledCores * kPlaneBytes), zeros);
    }
    if constexpr (kWgmma) ptx::fence_shared_async();
}

// ---- Where a raw stage has what, and where it belongs ----

// Planes that come whole come without their halo: the row and the column at position 0 of input plane 0, counted from
// the first ones of the input. Other raw stages begin there.
constexpr int kFirstRow = kWholeRows ? kShiftMinH * kInStrideH : 0;
constexpr int kFirstColumn = kWholeRows ? kShiftMinW * kInStrideW : 0;
constexpr int kRawElementBytes = 16 / kRawAlign;

__device__ __forceinline__ int raw_image_bytes(const Geometry& geometry) {
    return kStageChannels * geometry.raw_pitch() * (kSource == Source::rows ? kBoxRows : 1) * kRawElementBytes;
}

/// A row of the input in a raw stage, which has it for each channel.
struct RawLine {
    const Geometry& geometry;
    int image, row;
    PlaneElement<kInStrideH> h;
    __device__ __forceinline__ RawLine(const Geometry& of, uint32_t line)
        : geometry(of), image(kImages == 1 ? 0 : line / kBoxRows), row(line - image * kBoxRows),
          h(kInPlaneH, row - kFirstRow) {}
    __device__ __forceinline__ bool exists() const { return h.below(geometry.rows()); }
    /// The position at which it begins, in the first of its input planes along W.
    __device__ __forceinline__ int position() const {
        return image * geometry.image_pitch() + h.place * (kInPlanesW * geometry.plane_pitch()) +
               static_cast<int>(h.position) * geometry.row_pitch();
    }
    /// The byte of the raw stage at which it begins in the first channel.
    __device__ __forceinline__ int bytes() const {
        return image * raw_image_bytes(geometry) +
               row * (kWholeRows ? kInW : kStageChannels * kRawPitch) * kRawElementBytes;
    }
};

// ---- 16 bits, from channel planes ----

/// Where a lane puts the elements that it gets: one of each eight elements of a row, which belong to the same input
/// plane and are a constant distance apart in it.
struct LaneElements {
    static constexpr int kStep = 8 / kInStrideW; // positions from one to the next
    // Elements are counted from kLeft elements further to the left, so that no number that is divided is negative.
    static constexpr int kLeft = 8 + (kFirstColumn > 0 ? kFirstColumn : 0);
    // The least and the greatest position that a lane's first element may have. A box of rows begins up to 7 elements
    // early.
    static constexpr int kLeast = (kLeft - (kWholeRows ? kFirstColumn : 7)) / kInStrideW - kLeft / kInStrideW;
    static constexpr int kMost = (kLeft + 7 - kFirstColumn) / kInStrideW - kLeft / kInStrideW;
    int place, first; // the input plane of the lane's elements, and the position of the first one

    __device__ __forceinline__ LaneElements(const Item& item, int lane) {
        const PlaneElement<kInStrideW> w(kInPlaneW, lane / 4 + kLeft - (kWholeRows ? kFirstColumn : raw_shift(item)));
        place = w.place;
        first = static_cast<int>(w.position) - kLeft / kInStrideW;
    }
    __device__ __forceinline__ int position() const { return place * kInPlanePitch + first; }
    /// Whether the lane's element of the eight elements from 8 · eight on has a position. Where `eight` is a constant,
    /// so is most of this.
    __device__ __forceinline__ bool exists(int eight) const {
        const int begin = eight * kStep;
        return (kInPlanesW == kInStrideW || place >= 0) && (begin + kLeast >= 0 || begin + first >= 0) &&
               (begin + kMost < kPitch || begin + first < kPitch);
    }
};

/// Rearranges channel planes of 16 bits. Eight elements of eight channels are a matrix, whose columns are rows of core
/// matrices: ldmatrix transposes it. A warp takes a row of all channels, four matrices with a load, many loads before
/// the first store.
__device__ __forceinline__ void deinterleave_halves(const InputWalk& walk, uint32_t to, uint32_t raw, int thread) {
    constexpr int kPowerCores = kFilledCores <= 1 ? 1 : kFilledCores <= 2 ? 2 : kFilledCores <= 4 ? 4 : 8;
    constexpr int kCoresAtOnce = kPowerCores < 4 ? kPowerCores : 4, kEightsAtOnce = 4 / kCoresAtOnce;
    constexpr int kEights = kWholeRows ? (kInW + 7) / 8 : (kRawColumns + 7 + 7) / 8;
    constexpr int kLoads = (kEights + kEightsAtOnce - 1) / kEightsAtOnce, kLoadsAtOnce = kLoads < 4 ? kLoads : 4;
    constexpr int kUnrolled = kLoads <= 16 ? kLoads : 1; // more would be long code
    const int lane = thread % 32;
    const LaneElements elements(walk.item(), lane);
    const Geometry geometry(walk.args);
    to += elements.position() * 16 + lane % 4 * 4;
    raw += ((lane / 8 % kCoresAtOnce * 8 + lane % 8) * kRawPitch + lane / 8 / kCoresAtOnce * 8) * 2;
#pragma unroll 1
    for (int i = thread / 32; i < kImages * kBoxRows; i += kRearrangingWarps) {
        const RawLine line(geometry, i);
        if (!line.exists()) continue;
#pragma unroll
        for (int core = 0; core < kPowerCores; core += kCoresAtOnce) {
            const uint32_t from = raw + line.bytes() + core * (8 * kRawPitch * 2);
            const uint32_t line_to = to + line.position() * 16 + core * kPlaneBytes;
#pragma unroll kUnrolled
            for (int begin = 0; begin < kLoads; begin += kLoadsAtOnce) {
                uint32_t words[kLoadsAtOnce][4];
#pragma unroll
                for (int load = 0; load < kLoadsAtOnce; ++load)
                    if (begin + load < kLoads)
                        ptx::load_matrices_transposed(words[load], from + (begin + load) * kEightsAtOnce * 16);
#pragma unroll
                for (int m = 0; m < 4 * kLoadsAtOnce; ++m) {
                    const int eight = (begin + m / 4) * kEightsAtOnce + m % 4 / kCoresAtOnce;
                    if (eight < kEights && elements.exists(eight))
                        ptx::store_shared(line_to + m % kCoresAtOnce * kPlaneBytes + eight * (LaneElements::kStep * 16),
                                          words[m / 4][m % 4]);
                }
            }
        }
    }
}

// ---- fp32 from channel planes, and ranges ----
//
// A lane takes an element of a row, in all channels of a stage. Where the element lies and where it belongs is the same
// for all stages of a work item: each thread keeps both in a table in shared memory, an entry for each of its elements,
// and reads no other thread's entries.

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
