#pragma once

// The tensors of fwd or bwd_data for a kernel that was compiled for one problem: problem.hpp's, which the test writes,
// with its numbers in namespace given. Include it behind the kernel, whose element type it uses.
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

/// What is read and written: src and dst, or the gradients of dst and src.
struct Tensors {
    Values in = whole_numbers<Storage>(kBwdData ? kGiven.dst_elements() : kGiven.src_elements(), 2, 1);
    Values weight = whole_numbers<Storage>(kGiven.weight_elements(), 1, 2);
    Values bias = whole_numbers<Storage>(kGiven.groups * (kBwdData ? kGiven.ci : kGiven.co), 3, 3);
    std::vector<Compute> expected; // of what is written
    Values out;                    // poisoned, and longer

    Tensors()
        : expected(static_cast<size_t>(kBwdData ? kGiven.src_elements() : kGiven.dst_elements())),
          out(poisoned<Storage>(expected.size())) {
        if constexpr (given::kFp32 != 0) lengthen();
        const auto begin = [&](size_t at, size_t channel) { expected[at] = to_compute(bias[channel]); };
        kBwdData ? for_each_input(kGiven, begin) : for_each_output(kGiven, begin);
        for_each_product(kGiven, [&](size_t src, size_t tap, size_t dst) {
            expected[kBwdData ? src : dst] += to_compute(in[kBwdData ? dst : src]) * to_compute(weight[tap]);
        });
    }

    int wrong() const { return differences(out, expected, kBwdData ? "grad_src" : "dst"); }

private:
    static constexpr bool kBwdData = given::kBwdData != 0;

    /// Gives either factor of each product more bits than tf32 has.
    void lengthen() {
        constexpr Compute kLong = (1 << 12) + 1;
        constexpr int64_t kInChannels = kBwdData ? given::kCo : given::kCi;
        const auto voxels = static_cast<size_t>(Given::volume(kBwdData ? kGiven.dst : kGiven.src));
        for (size_t i = 0; i < in.size(); ++i) {
            const size_t c = (kGiven.channels_last ? i : i / voxels) % static_cast<size_t>(kGiven.groups * kInChannels);
            if (c % static_cast<size_t>(kInChannels) % 2 == 0) to_storage(to_compute(in[i]) * kLong, in[i]);
        }
        const auto taps = static_cast<size_t>(kGiven.taps()), co = static_cast<size_t>(kGiven.co);
        for (size_t i = 0; i < weight.size(); ++i) {
            const size_t channel = kBwdData ? i / taps % co : i / (co * taps) % static_cast<size_t>(kGiven.ci);
            if (channel % 2 == 1) to_storage(to_compute(weight[i]) * kLong, weight[i]);
        }
    }
};

} // namespace check
