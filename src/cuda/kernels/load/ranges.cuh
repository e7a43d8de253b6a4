#pragma once

// Source::ranges: rows whose length is no multiple of 16 bytes, which no tensor map takes. The rows of a tile are
// whole, so that they are contiguous in each channel. TMA brings them as one range of bytes, from the multiple of 16
// bytes before them to the one behind them. Here rows of three elements in 16 bits, of which a tile has two, a b c and
// d e f:
//
//     memory, in 16 bytes   . . . . . a b c|d e f . . . . .
//     a raw stage           . . . . . a b c d e f . . . . .|0 0 0 0 0 0 0 0     the next channel …
//
// In each channel they begin at another element of 16 bytes, so that warps load element by element. Zeros behind each
// range stand for what lies outside of the input.
#include "load/tma.cuh"
#include "schedule/positions.cuh"

namespace {

constexpr int kRangeElementBytes = 16 / kRawAlign;

/// The first of the zeros behind a channel's range, as an element of the channel. There are as many as 16 bytes hold,
/// since ranges begin at any element of these.
__device__ __forceinline__ int raw_zeros(const Geometry& geometry) {
    return geometry.raw_pitch() - kRawAlign;
}

/// Puts the zeros behind the ranges of all raw stages, once.
__device__ __forceinline__ void clear_raw_zeros(const Pipeline& pipe) {
    const Geometry& geometry = pipe.geometry;
    const int boxes = geometry.images() * kStageChannels, box_bytes = geometry.raw_pitch() * kRangeElementBytes;
    const uint32_t zeros[4] = {};
#pragma unroll 1
    for (int i = threadIdx.x; i < kRawStages * boxes; i += kThreads)
        ptx::store_shared(pipe.raw.data + i / boxes * kRawBytes + i % boxes * box_bytes +
                              raw_zeros(geometry) * kRangeElementBytes,
                          zeros);
}

/// The rows of a stage that lie in the input.
struct InputRows {
    int begin, end;
    __device__ __forceinline__ explicit InputRows(const InputWalk& walk)
        : begin(max(first_row(walk.item()), 0)),
          end(min(first_row(walk.item()) + Geometry(walk.args).raw_rows(), walk.args.in_extents.h)) {}
};

/// The element of the input at which these rows begin in a channel of the stage. In 32 bits it may overflow, and its
/// remainder modulo 16 bytes is right all the same.
template <typename Index>
__device__ __forceinline__ Index range_begin(const InputWalk& walk, const InputRows& rows, int image, int channel) {
    const auto& [d, h, w] = walk.args.in_extents;
    const Index plane = static_cast<Index>(h) * w, from = walk.chunk() * kStageChannels + channel;
    const Index of_all =
        (static_cast<Index>(walk.item().n) + image) * (kGroups * kInChannels) + walk.item().group * kInChannels + from;
    return (of_all * d + depth_of(walk.slice())) * plane + static_cast<Index>(rows.begin) * w;
}

/// The copy of a range: a channel of an image. Where the 16 bytes that hold the range's end reach beyond the tensor,
/// the last elements are copied one by one instead.
struct RangeCopy {
    const unsigned char* from;
    int bytes; // 0 where there is nothing to copy
    int rest;  // bytes behind these that come one by one
    __device__ __forceinline__ RangeCopy(const InputWalk& walk, const InputRows& rows, int box) {
        const auto& [d, h, w] = walk.args.in_extents;
        const int image = box / kStageChannels, channel = box % kStageChannels;
        const bool exists = rows.begin < rows.end && walk.item().n + image < walk.args.batch &&
                            walk.chunk() * kStageChannels + channel < kInChannels;
        const int64_t begin = range_begin<int64_t>(walk, rows, image, channel) * kRangeElementBytes;
        const int64_t end = begin + static_cast<int64_t>(rows.end - rows.begin) * w * kRangeElementBytes;
        const int64_t all = static_cast<int64_t>(walk.args.batch) * (kGroups * kInChannels) * d * h * w;
        const int64_t first = begin / 16 * 16, last = (end + 15) / 16 * 16;
        const bool beyond = last > all * kRangeElementBytes;
        from = walk.args.in + first;
        bytes = exists ? static_cast<int>((beyond ? end / 16 * 16 : last) - first) : 0;
        rest = exists && beyond ? static_cast<int>(end % 16) : 0;
    }
    __device__ __forceinline__ void copy_rest(uint32_t to) const {
        using Element = typename Unsigned<kRangeElementBytes>::Type;
        for (int at = bytes; at < bytes + rest; at += kRangeElementBytes)
            store_element(to + at, *reinterpret_cast<const Element*>(from + at));
        if (rest > 0) ptx::fence_shared_async(); // TMA writes there when the stage comes again
    }

private:
    __device__ __forceinline__ static void store_element(uint32_t to, uint32_t word) { ptx::store_shared(to, word); }
    __device__ __forceinline__ static void store_element(uint32_t to, uint16_t half) {
        ptx::store_shared_half_if(true, to, half);
    }
};

__device__ __forceinline__ int sum_of_warp(int value) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
    return value;
}

/// Fills the raw stages, by one warp whose lanes share the copies. How many bytes come depends on where each range
/// begins, so that they are added up first.
__device__ __forceinline__ void copy_ranges(const TensorCoreArguments& args, const Pipeline& pipe, int lane) {
    const Geometry& geometry = pipe.geometry;
    const int boxes = geometry.images() * kStageChannels, box_bytes = geometry.raw_pitch() * kRangeElementBytes;
    int s = 0;
#pragma unroll 1
    for (InputWalk walk(args); walk.next(); ++s) {
        const InputRows rows(walk);
        const uint32_t to = pipe.raw.at(s), full = pipe.raw.full(s);
        int bytes = 0;
        pipe.raw.wait_empty(s);
        for (int box = lane; box < boxes; box += 32) {
            const RangeCopy copy(walk, rows, box);
            copy.copy_rest(to + box * box_bytes);
            bytes += copy.bytes;
        }
        bytes = sum_of_warp(bytes);
        __syncwarp(); // all lanes have stored what comes one by one
        if (lane == 0) ptx::barrier_arrive_expect(full, bytes);
        __syncwarp();
        for (int box = lane; box < boxes; box += 32) {
            const RangeCopy copy(walk, rows, box);
            if (copy.bytes > 0) ptx::copy_bulk(to + box * box_bytes, copy.from, copy.bytes, full);
        }
    }
}

/// The element of its 16 bytes at which the range of each channel of a core matrix begins. It is the same for all core
/// matrices of an image, because a core matrix has as many channels as 16 bytes have elements.
struct RangeShifts {
    int of[kRawAlign];
    __device__ __forceinline__ RangeShifts(const InputWalk& walk, const InputRows& rows, int image) {
#pragma unroll
        for (int i = 0; i < kRawAlign; ++i) of[i] = range_begin<uint32_t>(walk, rows, image, i) % kRawAlign;
    }
};

} // namespace
