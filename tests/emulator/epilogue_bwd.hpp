#pragma once

// The backward of epilogues on the host, many chains in one program: each has a namespace of its own, in which its
// prelude, the kernels and epilogue_bwd_case/chain.hpp are included. The test writes that, and the tensors with the
// expected results of each chain to a file.
#include "device.hpp"

#undef __shared__
#define __shared__ static // of a CTA at a time

#include <fstream>

#include "base/storage.cuh"
#include "definition.hpp"
#include "finish/step_derivatives.cuh"
#include "shared/epilogue_bwd.cuh"

namespace epilogue_bwd_case {

/// Fewer CTAs than there is work for, so that each does several items.
constexpr int kGrid = 3;

inline void launch(int threads, void (*thread)()) {
    gridDim = {kGrid, 1, 1};
    for (int block = 0; block < kGrid; ++block) emulator::run_cta(block, threads, thread);
}

/// Tensors one after the other: how many elements, then these.
template <typename Element>
class Tensors {
public:
    explicit Tensors(const char* name) : file_(name, std::ios::binary) {}

    check::GuardedValues<Element> next() {
        int64_t count = 0;
        file_.read(reinterpret_cast<char*>(&count), sizeof count);
        check::GuardedValues<Element> values(static_cast<size_t>(count));
        file_.read(reinterpret_cast<char*>(values.data()), count * static_cast<int64_t>(sizeof(Element)));
        if (!file_) std::abort();
        return values;
    }

private:
    std::ifstream file_;
};

inline bool is_close(double value, double expected, double tolerance) {
    if (std::isnan(expected)) return std::isnan(value);
    if (std::isinf(expected) || tolerance == 0) return value == expected;
    return std::abs(value - expected) <= tolerance * (1 + std::abs(expected));
}

/// How many elements are wrong; behind the last expected one there are only poisoned ones.
template <typename Element>
int wrong(const check::GuardedValues<Element>& values, const check::GuardedValues<Element>& expected, double tolerance,
          const char* name) {
    int count = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const double right = i < expected.size() ? static_cast<double>(to_compute(expected[i])) : check::kPoison;
        const double value = static_cast<double>(to_compute(values[i]));
        if (is_close(value, right, i < expected.size() ? tolerance : 1e-2)) continue;
        if (count++ < 5) std::printf("%s: element %zu is %g, not %g\n", name, i, value, right);
    }
    return count;
}

} // namespace epilogue_bwd_case
