#pragma once

// The tensors of fwd for a kernel that was compiled for one problem: problem.hpp's, which the test writes, with its
// numbers in namespace given. Include it behind the kernel, whose element type it uses.
#include "definition.hpp"
#include "problem.hpp"

namespace check {

constexpr Given kGiven = {
    given::kBatch,
    given::kGroups,
    given::kCi,
    given::kCo,
    given::kChannelsLast != 0,
    {given::kSrcD, given::kSrcH, given::kSrcW},
    {given::kDstD, given::kDstH, given::kDstW},
    {given::kKernelD, given::kKernelH, given::kKernelW},
    {given::kStrideD, given::kStrideH, given::kStrideW},
    {given::kPaddingD, given::kPaddingH, given::kPaddingW},
    {given::kDilationD, given::kDilationH, given::kDilationW},
};

using Values = GuardedValues<Storage>;

/// The weight with its channels last.
inline Values channels_last(const Values& weight) {
    const auto taps = static_cast<size_t>(kGiven.taps());
    constexpr size_t kChannels = given::kCo;
    const size_t input = kChannels * taps;
    Values turned(weight.size());
    for (size_t i = 0; i < weight.size(); ++i)
        turned[i / input * input + i % taps * kChannels + i / taps % kChannels] = weight[i];
    return turned;
}

struct Tensors {
    Values src = whole_numbers<Storage>(kGiven.src_elements(), 2, 1);
    Values weight = whole_numbers<Storage>(kGiven.weight_elements(), 1, 2);
    Values bias = whole_numbers<Storage>(kGiven.groups * kGiven.co, 3, 3);
    std::vector<Compute> expected; // of dst
    Values dst;                    // poisoned, and longer

    Tensors() : expected(static_cast<size_t>(kGiven.dst_elements())), dst(poisoned<Storage>(expected.size())) {
        if constexpr (given::kFp32 != 0) lengthen();
        for_each_output(kGiven, [&](size_t at, size_t channel) { expected[at] = to_compute(bias[channel]); });
        for_each_product(kGiven, [&](size_t from, size_t tap, size_t at) {
            expected[at] += to_compute(src[from]) * to_compute(weight[tap]);
        });
    }

    int wrong() const { return differences(dst, expected, "dst"); }

private:
    /// Gives either factor of each product more bits than tf32 has.
    void lengthen() {
        constexpr Compute kLong = (1 << 12) + 1;
        const auto voxels = static_cast<size_t>(Given::volume(kGiven.src));
        const auto channels = static_cast<size_t>(kGiven.groups * kGiven.ci);
        for (size_t i = 0; i < src.size(); ++i) {
            const size_t c = (kGiven.channels_last ? i : i / voxels) % channels;
            if (c % 2 == 0) to_storage(to_compute(src[i]) * kLong, src[i]);
        }
        const auto per_channel = static_cast<size_t>(kGiven.co * kGiven.taps());
        for (size_t i = 0; i < weight.size(); ++i)
            if (i / per_channel % 2 == 1) to_storage(to_compute(weight[i]) * kLong, weight[i]);
    }
};

} // namespace check
