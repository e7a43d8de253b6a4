#pragma once

// The kernels of the families direct and cells on the host, many problems in one program: each has a namespace of its
// own, in which its prelude, the kernel and a file of direct_case or cells_case are included. The test writes that.
#include "device.hpp"

#undef __shared__
#define __shared__ static // of a CTA at a time

#include "base/storage.cuh"
#include "definition.hpp"
#include "finish/steps.cuh"
#include "shared/cells.cuh"
#include "shared/direct_arguments.cuh"
#include "shared/output.cuh"
#include "shared/split_sums.cuh"
#include "shared/tap_progression.cuh"

// The name of a second kernel of a problem, by that of the first.
#define JOINED_NOW(first, second) first##second
#define JOINED(first, second) JOINED_NOW(first, second)

namespace direct {

/// Fewer CTAs than there is work for, so that each does several items.
constexpr int kGrid = 3;

inline void launch(int threads, void (*thread)()) {
    gridDim = {kGrid, 1, 1};
    for (int block = 0; block < kGrid; ++block) emulator::run_cta(block, threads, thread);
}

template <typename Args, size_t kBytes>
Args from_bytes(const unsigned char (&bytes)[kBytes]) {
    static_assert(sizeof(Args) == kBytes);
    Args args;
    std::memcpy(&args, bytes, kBytes);
    return args;
}

/// Results that are null are not wanted.
inline void place_sums(tconv3d::cuda::SplitSums& given, const void* sums, void* results) {
    given.sums = sums;
    given.results = results;
    if (results == nullptr) given.rows = 0;
}

template <typename Element>
struct Tensors {
    check::GuardedValues<Element> src, weight, bias, grad_dst;

    explicit Tensors(const check::Given& given)
        : src(check::whole_numbers<Element>(given.src_elements(), 2, 1)),
          weight(check::whole_numbers<Element>(given.weight_elements(), 1, 2)),
          bias(check::whole_numbers<Element>(given.groups * given.co, 3, 3)),
          grad_dst(check::whole_numbers<Element>(given.dst_elements(), 2, 4)) {}
};

template <typename Element>
std::vector<double> exact_dst(const check::Given& given, const Tensors<Element>& tensors) {
    std::vector<double> exact(static_cast<size_t>(given.dst_elements()));
    check::for_each_output(given, [&](size_t at, size_t co) { exact[at] = to_compute(tensors.bias[co]); });
    check::for_each_product(given, [&](size_t src, size_t weight, size_t dst) {
        exact[dst] += to_compute(tensors.src[src]) * to_compute(tensors.weight[weight]);
    });
    return exact;
}

template <typename Element>
std::vector<double> exact_grad_src(const check::Given& given, const Tensors<Element>& tensors) {
    std::vector<double> exact(static_cast<size_t>(given.src_elements()));
    check::for_each_product(given, [&](size_t src, size_t weight, size_t dst) {
        exact[src] += to_compute(tensors.grad_dst[dst]) * to_compute(tensors.weight[weight]);
    });
    return exact;
}

template <typename Element>
std::vector<double> exact_grad_weight(const check::Given& given, const Tensors<Element>& tensors) {
    std::vector<double> exact(static_cast<size_t>(given.weight_elements()));
    check::for_each_product(given, [&](size_t src, size_t weight, size_t dst) {
        exact[weight] += to_compute(tensors.src[src]) * to_compute(tensors.grad_dst[dst]);
    });
    return exact;
}

template <typename Element>
std::vector<double> exact_grad_bias(const check::Given& given, const Tensors<Element>& tensors) {
    std::vector<double> exact(static_cast<size_t>(given.groups * given.co));
    check::for_each_output(given, [&](size_t at, size_t co) { exact[co] += to_compute(tensors.grad_dst[at]); });
    return exact;
}

} // namespace direct
