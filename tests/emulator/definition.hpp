#pragma once

// A transposed convolution and its gradients on whole numbers, by their definition, and how a kernel's result compares
// with them.
#include <cstdio>
#include <vector>

#include <sys/mman.h>

#include "base/storage.cuh"

namespace check {

constexpr double kPoison = -777;

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
template <typename Element>
using GuardedValues = std::vector<Element, Guarded<Element>>;

/// Rounded to the element, as kernels do.
template <typename Element>
Element rounded(double value) {
    Element element;
    to_storage(static_cast<decltype(to_compute(element))>(value), element);
    return element;
}

/// Whole numbers whose sums are exact in every type.
template <typename Element>
GuardedValues<Element> whole_numbers(int64_t count, int64_t range, uint32_t seed) {
    GuardedValues<Element> values(static_cast<size_t>(count));
    for (Element& value : values) {
        seed = seed * 1664525 + 1013904223;
        value = rounded<Element>(static_cast<double>(static_cast<int64_t>(seed >> 16) % (2 * range + 1) - range));
    }
    return values;
}

/// Poisoned elements, and more of them behind the last.
template <typename Element>
GuardedValues<Element> poisoned(size_t count) {
    return GuardedValues<Element>(count + 64, rounded<Element>(kPoison));
}

/// Results that differ, and elements behind the last one that were written.
template <typename Element, typename Exact>
int differences(const GuardedValues<Element>& computed, const std::vector<Exact>& exact, const char* name) {
    int count = 0;
    for (size_t i = 0; i < computed.size(); ++i) {
        const Element right = rounded<Element>(i < exact.size() ? exact[i] : kPoison);
        if (to_compute(computed[i]) == to_compute(right)) continue;
        if (count++ < 5)
            std::printf("%s: element %zu is %g, not %g\n", name, i, static_cast<double>(to_compute(computed[i])),
                        static_cast<double>(to_compute(right)));
    }
    return count;
}

using Triple = int[3]; // d, h, w

struct Given {
    int batch, groups, ci, co; // channels of a group
    bool channels_last;
    Triple src, dst, kernel, stride, padding, dilation;

    static int64_t volume(const Triple& extents) { return int64_t{1} * extents[0] * extents[1] * extents[2]; }
    int64_t taps() const { return volume(kernel); }
    int64_t src_elements() const { return batch * groups * ci * volume(src); }
    int64_t dst_elements() const { return batch * groups * co * volume(dst); }
    int64_t weight_elements() const { return groups * ci * co * taps(); }

    int64_t src_index(int n, int c, int64_t voxel) const { return index(groups * ci, volume(src), n, c, voxel); }
    int64_t dst_index(int n, int c, int64_t voxel) const { return index(groups * co, volume(dst), n, c, voxel); }

    /// The voxel of dst that a voxel of src reaches through a tap, or -1: s·i − p + j·d in each dimension.
    int64_t reached(int64_t voxel, int64_t tap) const {
        int64_t at[3];
        for (int dim = 2; dim >= 0; --dim) {
            at[dim] = voxel % src[dim] * stride[dim] - padding[dim] + tap % kernel[dim] * dilation[dim];
            if (at[dim] < 0 || at[dim] >= dst[dim]) return -1;
            voxel /= src[dim];
            tap /= kernel[dim];
        }
        return (at[0] * dst[1] + at[1]) * dst[2] + at[2];
    }

private:
    int64_t index(int channels, int64_t voxels, int n, int c, int64_t voxel) const {
        return channels_last ? (n * voxels + voxel) * channels + c : (int64_t{1} * n * channels + c) * voxels + voxel;
    }
};

/// Calls body(src, weight, dst) with the elements of every product: all directions are sums over them.
template <typename Body>
void for_each_product(const Given& given, const Body& body) {
    for (int n = 0; n < given.batch; ++n)
        for (int64_t voxel = 0; voxel < Given::volume(given.src); ++voxel)
            for (int64_t tap = 0; tap < given.taps(); ++tap) {
                const int64_t reached = given.reached(voxel, tap);
                if (reached < 0) continue;
                for (int ci = 0; ci < given.groups * given.ci; ++ci)
                    for (int co = 0; co < given.co; ++co)
                        body(static_cast<size_t>(given.src_index(n, ci, voxel)),
                             static_cast<size_t>((int64_t{1} * ci * given.co + co) * given.taps() + tap),
                             static_cast<size_t>(given.dst_index(n, ci / given.ci * given.co + co, reached)));
            }
}

/// Calls body(dst, channel) with every element of dst.
template <typename Body>
void for_each_output(const Given& given, const Body& body) {
    for (int n = 0; n < given.batch; ++n)
        for (int co = 0; co < given.groups * given.co; ++co)
            for (int64_t voxel = 0; voxel < Given::volume(given.dst); ++voxel)
                body(static_cast<size_t>(given.dst_index(n, co, voxel)), static_cast<size_t>(co));
}

/// Calls body(src, channel) with every element of src.
template <typename Body>
void for_each_input(const Given& given, const Body& body) {
    for (int n = 0; n < given.batch; ++n)
        for (int ci = 0; ci < given.groups * given.ci; ++ci)
            for (int64_t voxel = 0; voxel < Given::volume(given.src); ++voxel)
                body(static_cast<size_t>(given.src_index(n, ci, voxel)), static_cast<size_t>(ci));
}

} // namespace check
