#pragma once

// The tensors of fwd or bwd_data on whole numbers, and what they come to.
#include "definition.hpp"

namespace check {

/// What is read and written: src and dst, or the gradients of dst and src.
template <typename Storage>
struct Tensors {
    using Values = GuardedValues<Storage>;
    using Compute = decltype(to_compute(Storage()));
    const Given& given;
    const bool bwd_data;
    Values in, weight, bias;
    std::vector<Compute> expected; // of what is written
    Values out;                    // poisoned, and longer

    /// With `is_long`, either factor of each product has more bits than tf32 has.
    Tensors(const Given& problem, bool of_bwd_data, bool is_long)
        : given(problem), bwd_data(of_bwd_data),
          in(whole_numbers<Storage>(bwd_data ? given.dst_elements() : given.src_elements(), 2, 1)),
          weight(whole_numbers<Storage>(given.weight_elements(), 1, 2)),
          bias(whole_numbers<Storage>(given.groups * (bwd_data ? given.ci : given.co), 3, 3)),
          expected(static_cast<size_t>(bwd_data ? given.src_elements() : given.dst_elements())),
          out(poisoned<Storage>(expected.size())) {
        if (is_long) lengthen();
        const auto begin = [&](size_t at, size_t channel) { expected[at] = to_compute(bias[channel]); };
        bwd_data ? for_each_input(given, begin) : for_each_output(given, begin);
        for_each_product(given, [&](size_t src, size_t tap, size_t dst) {
            expected[bwd_data ? src : dst] += to_compute(in[bwd_data ? dst : src]) * to_compute(weight[tap]);
        });
    }

    int wrong() const { return differences(out, expected, bwd_data ? "grad_src" : "dst"); }

    /// The weight with its channels last.
    Values weight_channels_last() const {
        const auto taps = static_cast<size_t>(given.taps()), channels = static_cast<size_t>(given.co);
        const size_t input = channels * taps;
        Values turned(weight.size());
        for (size_t i = 0; i < weight.size(); ++i)
            turned[i / input * input + i % taps * channels + i / taps % channels] = weight[i];
        return turned;
    }

private:
    void lengthen() {
        constexpr Compute kFactor = (1 << 12) + 1;
        const auto in_channels = static_cast<size_t>(bwd_data ? given.co : given.ci);
        const auto voxels = static_cast<size_t>(Given::volume(bwd_data ? given.dst : given.src));
        for (size_t i = 0; i < in.size(); ++i) {
            const size_t c = (given.channels_last ? i : i / voxels) % (static_cast<size_t>(given.groups) * in_channels);
            if (c % in_channels % 2 == 0) to_storage(to_compute(in[i]) * kFactor, in[i]);
        }
        const auto taps = static_cast<size_t>(given.taps()), co = static_cast<size_t>(given.co);
        for (size_t i = 0; i < weight.size(); ++i) {
            const size_t channel = bwd_data ? i / taps % co : i / (co * taps) % static_cast<size_t>(given.ci);
            if (channel % 2 == 1) to_storage(to_compute(weight[i]) * kFactor, weight[i]);
        }
    }
};

} // namespace check
