#pragma once

// The taps that one result of a correlation meets along one dimension form an arithmetic progression, and so do the
// indexes that they read (docs/math.md, sections 2 and 3). Host and device compile this file.
#include "shared/index_range.cuh"

namespace tconv3d::cuda {

/// The taps of one result that read inside the input.
struct TapRange {
    int64_t tap; ///< the first
    int64_t in;  ///< the index that it reads
    int64_t count;
};

constexpr int64_t greatest_common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/// x with value · x = 1 modulo `modulus`, for coprime ones: Euclid's algorithm.
constexpr int64_t inverse_modulo(int64_t value, int64_t modulus) {
    int64_t rest = modulus, next = value % modulus;
    int64_t factor = 0, next_factor = 1 % modulus;
    while (next != 0) {
        const int64_t quotient = rest / next;
        const int64_t later = rest - quotient * next, later_factor = factor - quotient * next_factor;
        rest = next;
        next = later;
        factor = next_factor;
        next_factor = later_factor;
    }
    return factor < 0 ? factor + modulus : factor;
}

/// a · b modulo `modulus`, for a and b below it. Kernels take moduli below 2³¹ alone; the host takes all.
constexpr int64_t multiply_modulo(int64_t a, int64_t b, int64_t modulus) {
#ifdef __CUDACC_RTC__
    return a * b % modulus;
#else
    __extension__ using Wide = __int128;
    return static_cast<int64_t>(Wide(a) * b % modulus);
#endif
}

/// fwd: output o meets the taps j with s · i = o + p − j · d for an i inside src. With g = gcd(s, d) and t = o + p
/// there are some only if g divides r = t mod s. They are j0, j0 + s/g, …, with j0 = (r/g) · (d/g)⁻¹ modulo s/g; each
/// next one reads src d/g lower.
struct FwdTaps {
    int64_t kernel, stride, padding, dilation, gcd, inverse;

    constexpr FwdTaps(int64_t kernel_extent, int64_t stride_of, int64_t padding_of, int64_t dilation_of)
        : kernel(kernel_extent), stride(stride_of), padding(padding_of), dilation(dilation_of),
          gcd(greatest_common_divisor(stride_of, dilation_of)),
          inverse(inverse_modulo(dilation_of / gcd, stride_of / gcd)) {}

    /// From each tap of a run to the next, and how much lower that one reads.
    constexpr int64_t tap_step() const { return stride / gcd; }
    constexpr int64_t in_back() const { return dilation / gcd; }

    constexpr TapRange at(int64_t output, int64_t src_extent) const {
        const int64_t step = tap_step(), back = in_back();
        const int64_t reach = output + padding;
        const int64_t phase = reach % stride;
        const int64_t first = multiply_modulo(phase / gcd, inverse, step);
        if (phase % gcd != 0 || first >= kernel) return {0, 0, 0};
        const int64_t src = (reach - first * dilation) / stride;
        if (src < 0) return {0, 0, 0};
        const int64_t skipped = src < src_extent ? 0 : (src - src_extent) / back + 1;
        const int64_t in_kernel = (kernel - 1 - first) / step, in_src = src / back;
        const int64_t last = in_kernel < in_src ? in_kernel : in_src;
        return {first + skipped * step, src - skipped * back, last - skipped + 1};
    }
};

/// bwd_data: voxel i of src meets the taps j with s · i − p + j · d inside dst: neighbours, which read d apart.
struct BwdDataTaps {
    int64_t kernel, stride, padding, dilation;

    constexpr BwdDataTaps(int64_t kernel_extent, int64_t stride_of, int64_t padding_of, int64_t dilation_of)
        : kernel(kernel_extent), stride(stride_of), padding(padding_of), dilation(dilation_of) {}

    constexpr int64_t tap_step() const { return 1; }
    constexpr int64_t in_back() const { return -dilation; }

    constexpr TapRange at(int64_t voxel, int64_t dst_extent) const {
        const int64_t first = stride * voxel - padding;
        const IndexRange taps = indexes_within(dilation, first, kernel, dst_extent);
        return {taps.first, first + taps.first * dilation, taps.count};
    }
};

} // namespace tconv3d::cuda
