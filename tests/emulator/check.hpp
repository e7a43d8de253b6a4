#pragma once

// A transposed convolution on integers by its definition, and how a kernel's result compares with it. The problem
// is problem.hpp's, which the test writes: its numbers are in namespace given. Include it behind the kernel, whose
// element type it uses.
#include <vector>

#include <sys/mman.h>

#include "problem.hpp"

namespace check {

constexpr int kSrcChannels = given::kGroups * given::kCi, kDstChannels = given::kGroups * given::kCo;
constexpr int kTaps = given::kKernelD * given::kKernelH * given::kKernelW;
constexpr float kPoison = -777;

/// Memory that ends, but for less than 16 bytes, where no more may be touched: a step beyond it ends the process.
template <typename Value>
struct Guarded {
    using value_type = Value;
    static constexpr size_t kPage = 4096;
    static size_t pages(size_t count) { return (count * sizeof(Value) + kPage - 1) / kPage * kPage; }

    Value* allocate(size_t count) {
        auto* begin = static_cast<unsigned char*>(
            mmap(nullptr, pages(count) + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(begin + pages(count), kPage, PROT_NONE);
        return reinterpret_cast<Value*>(begin + (pages(count) - count * sizeof(Value)) / 16 * 16);
    }
    void deallocate(Value* values, size_t count) {
        munmap(reinterpret_cast<void*>(reinterpret_cast<size_t>(values) / kPage * kPage), pages(count) + kPage);
    }
    bool operator==(const Guarded&) const { return true; }
    bool operator!=(const Guarded&) const { return false; }
};
using Values = std::vector<Storage, Guarded<Storage>>;

/// Whole numbers whose sums are exact in every type.
inline Values integers(int64_t count, int64_t range, uint32_t seed) {
    Values values(static_cast<size_t>(count));
    for (Storage& value : values) {
        seed = seed * 1664525 + 1013904223;
        to_storage(static_cast<Compute>(static_cast<int64_t>(seed >> 16) % (2 * range + 1) - range), value);
    }
    return values;
}

inline int64_t src_index(int n, int c, int64_t voxel) {
    const int64_t voxels = int64_t{1} * given::kSrcD * given::kSrcH * given::kSrcW;
    return given::kChannelsLast ? (n * voxels + voxel) * kSrcChannels + c
                                : (int64_t{1} * n * kSrcChannels + c) * voxels + voxel;
}

inline int64_t dst_index(int n, int c, int64_t voxel) {
    const int64_t voxels = int64_t{1} * given::kDstD * given::kDstH * given::kDstW;
    return given::kChannelsLast ? (n * voxels + voxel) * kDstChannels + c
                                : (int64_t{1} * n * kDstChannels + c) * voxels + voxel;
}

/// The weight with its channels last.
inline Values channels_last(const Values& weight) {
    constexpr size_t kAll = kTaps, kChannels = given::kCo, kInput = kChannels * kAll;
    Values turned(weight.size());
    for (size_t i = 0; i < weight.size(); ++i)
        turned[i / kInput * kInput + i % kAll * kChannels + i / kAll % kChannels] = weight[i];
    return turned;
}

struct Tensors {
    Values src = integers(int64_t{1} * given::kBatch * kSrcChannels * given::kSrcD * given::kSrcH * given::kSrcW, 2, 1);
    Values weight = integers(int64_t{1} * kSrcChannels * given::kCo * kTaps, 1, 2);
    Values bias = integers(kDstChannels, 3, 3);
    std::vector<Compute> expected; // of dst
    Values dst;                    // poisoned, and longer

    Tensors() {
        if constexpr (given::kFp32 != 0) lengthen();
        const int64_t voxels = int64_t{1} * given::kDstD * given::kDstH * given::kDstW;
        expected.resize(static_cast<size_t>(given::kBatch * kDstChannels * voxels));
        for (int n = 0; n < given::kBatch; ++n) {
            for (int c = 0; c < kDstChannels; ++c)
                for (int64_t voxel = 0; voxel < voxels; ++voxel)
                    expected[static_cast<size_t>(dst_index(n, c, voxel))] = to_compute(bias[static_cast<size_t>(c)]);
            for (int c = 0; c < kSrcChannels; ++c)
                for (int voxel = 0; voxel < given::kSrcD * given::kSrcH * given::kSrcW; ++voxel) scatter(n, c, voxel);
        }
        dst.resize(expected.size() + 64);
        for (Storage& element : dst) to_storage(static_cast<Compute>(kPoison), element);
    }

    /// Outputs that differ, and elements behind the last one that were written.
    int wrong() const {
        int count = 0;
        for (size_t i = 0; i < dst.size(); ++i) {
            Storage right;
            to_storage(i < expected.size() ? expected[i] : static_cast<Compute>(kPoison), right);
            if (to_compute(dst[i]) == to_compute(right)) continue;
            if (count++ < 5)
                std::printf("element %zu is %g, not %g\n", i, static_cast<double>(to_compute(dst[i])),
                            static_cast<double>(to_compute(right)));
        }
        return count;
    }

private:
    /// Gives either factor of each product more bits than tf32 has.
    void lengthen() {
        constexpr Compute kLong = (1 << 12) + 1;
        const size_t voxels = size_t{1} * given::kSrcD * given::kSrcH * given::kSrcW;
        for (size_t i = 0; i < src.size(); ++i) {
            const size_t c = (given::kChannelsLast ? i : i / voxels) % kSrcChannels;
            if (c % 2 == 0) to_storage(to_compute(src[i]) * kLong, src[i]);
        }
        for (size_t i = 0; i < weight.size(); ++i)
            if (i / (given::kCo * kTaps) % 2 == 1) to_storage(to_compute(weight[i]) * kLong, weight[i]);
    }

    /// Adds what one source voxel and channel contributes.
    void scatter(int n, int c, int voxel) {
        const int d = voxel / (given::kSrcH * given::kSrcW), h = voxel / given::kSrcW % given::kSrcH;
        const int w = voxel % given::kSrcW, group = c / given::kCi;
        const Compute value = to_compute(src[static_cast<size_t>(src_index(n, c, voxel))]);
        for (int co = 0; co < given::kCo; ++co)
            for (int tap = 0; tap < kTaps; ++tap) {
                const int tap_h = tap / given::kKernelW % given::kKernelH, tap_w = tap % given::kKernelW;
                const int od = d * given::kStrideD - given::kPaddingD +
                               tap / (given::kKernelH * given::kKernelW) * given::kDilationD;
                const int oh = h * given::kStrideH - given::kPaddingH + tap_h * given::kDilationH;
                const int ow = w * given::kStrideW - given::kPaddingW + tap_w * given::kDilationW;
                if (od < 0 || oh < 0 || ow < 0) continue;
                if (od >= given::kDstD || oh >= given::kDstH || ow >= given::kDstW) continue;
                const int64_t at =
                    dst_index(n, group * given::kCo + co, (int64_t{1} * od * given::kDstH + oh) * given::kDstW + ow);
                const size_t from = static_cast<size_t>((int64_t{1} * c * given::kCo + co) * kTaps + tap);
                expected[static_cast<size_t>(at)] += value * to_compute(weight[from]);
            }
    }
};

} // namespace check
