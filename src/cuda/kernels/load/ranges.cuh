#pragma once

// Source::ranges: rows whose length is no multiple of 16 bytes, which no tensor map takes. The rows of a tile, which
// are whole, are contiguous in each channel: TMA brings them as one range of bytes, from the multiple of 16 bytes
// before them to that behind them. So they begin at another element of 16 bytes in each channel, and warps load element
// by element.
#include "load/tma.cuh"
#include "schedule/positions.cuh"

namespace {

constexpr int kRangeChannels = kSteps * kChannelStep; // of a stage

/// The rows of a stage that the input has.
struct InputRows {
    int begin, end;
    __device__ __forceinline__ InputRows(const InputWalk& walk)
        : begin(max(first_row(walk.item()), 0)), end(min(first_row(walk.item()) + kBoxRows, walk.args.in_extents.h)) {}
};

/// The first element of these rows in a channel of the stage. Its remainder modulo 16 bytes is right even where it
/// overflows, as Index may in 32 bits.
template <typename Index>
__device__ __forceinline__ Index range_begin(const InputWalk& walk, const InputRows& rows, int image, int channel) {
    const auto& [d, h, w] = walk.args.in_extents;
    const Index plane = static_cast<Index>(h) * w, from = walk.chunk() * kRangeChannels + channel;
    const Index of_all =
        (static_cast<Index>(walk.item().n) + image) * (kGroups * kInChannels) + walk.item().group * kInChannels + from;
    return (of_all * d + depth_of(walk.slice())) * plane + static_cast<Index>(rows.begin) * w;
}

/// Copies of a stage, a channel of an image each.
struct RangeCopy {
    const unsigned char* from;
    int bytes; // 0 where there is nothing to copy
    __device__ __forceinline__ RangeCopy(const InputWalk& walk, const InputRows& rows, int box) {
        constexpr int kElementBytes = 16 / kRawAlign;
        const int image = box / kRangeChannels, channel = box % kRangeChannels;
        const bool exists = rows.begin < rows.end && walk.item().n + image < walk.args.batch &&
                            walk.chunk() * kRangeChannels + channel < kInChannels;
        const int64_t begin = range_begin<int64_t>(walk, rows, image, channel) * kElementBytes;
        const int64_t end =
            begin + static_cast<int64_t>(rows.end - rows.begin) * walk.args.in_extents.w * kElementBytes;
        from = walk.args.in + begin / 16 * 16;
        bytes = exists ? static_cast<int>((end + 15) / 16 * 16 - begin / 16 * 16) : 0;
    }
};

__device__ __forceinline__ int sum_of_warp(int value) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
    return value;
}

/// The lanes of a warp share the copies. How many bytes come depends on where each range begins.
__device__ __forceinline__ void copy_ranges(const TensorCoreArguments& args, const Pipeline& pipe, int lane) {
    constexpr int kBoxes = kImages * kRangeChannels, kBoxBytes = kRawPitch * 16 / kRawAlign;
    int s = 0;
#pragma unroll 1
    for (InputWalk walk(args); walk.next(); ++s) {
        const InputRows rows(walk);
        int bytes = 0;
        for (int box = lane; box < kBoxes; box += 32) bytes += RangeCopy(walk, rows, box).bytes;
        bytes = sum_of_warp(bytes);
        pipe.raw.wait_empty(s);
        if (lane == 0) ptx::barrier_arrive_expect(pipe.raw.full(s), bytes);
        __syncwarp();
        for (int box = lane; box < kBoxes; box += 32) {
            const RangeCopy copy(walk, rows, box);
            if (copy.bytes > 0)
                ptx::copy_bulk(pipe.raw.at(s) + box * kBoxBytes, copy.from, copy.bytes, pipe.raw.full(s));
        }
    }
}

/// Where the ranges of a core matrix' channels begin in their 16 bytes: the same for all core matrices of an image,
/// whose channels are as many as 16 bytes have elements.
struct RangeShifts {
    int of[kRawAlign];
    __device__ __forceinline__ RangeShifts(const InputWalk& walk, const InputRows& rows, int image) {
#pragma unroll
        for (int i = 0; i < kRawAlign; ++i) of[i] = range_begin<uint32_t>(walk, rows, image, i) % kRawAlign;
    }
};

} // namespace
