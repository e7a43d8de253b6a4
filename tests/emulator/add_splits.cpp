// The second pass of bwd_weight by itself: sums of few and many splits. prelude.hpp has its constants.
#include "device.hpp"

#undef __shared__
#define __shared__ static // of a CTA at a time

#include "prelude.hpp"

#include "add_splits.cuh"
#include "definition.hpp"

namespace {

AddSplitsArguments the_args;

/// Sums in the order of the workspace, and what they come to in that of the results.
struct Case {
    SplitSums shape;
    check::GuardedValues<Compute> sums;
    check::GuardedValues<Storage> results;
    std::vector<double> expected;

    explicit Case(const SplitSums& given)
        : shape(given), sums(given.splits * given.split_pitch, Compute(NAN)),
          results(check::poisoned<Storage>(given.taps * given.rows * given.columns)),
          expected(given.taps * given.rows * given.columns, 0) {
        for (int64_t split = 0; split < given.splits; ++split)
            for (int64_t tap = 0; tap < given.taps; ++tap)
                for (int64_t row = 0; row < given.rows; ++row)
                    for (int64_t column = 0; column < given.columns; ++column) fill(split, tap, row, column);
        shape.sums = sums.data();
        shape.results = results.data();
    }

    void fill(int64_t split, int64_t tap, int64_t row, int64_t column) {
        const int64_t in_split = (tap * shape.rows + row) * shape.row_pitch + column;
        const int64_t value = (split * 7 + tap * 5 + row * 3 + column) % 11 - 4;
        sums[split * shape.split_pitch + in_split] = static_cast<Compute>(value);
        expected[(row * shape.columns + column) * shape.taps + tap] += static_cast<double>(value);
    }
};

bool is_exact(const SplitSums& weight_shape, const SplitSums& bias_shape, int ctas) {
    const Case weight(weight_shape), bias(bias_shape);
    the_args = {weight.shape, bias.shape};
    gridDim = {ctas, 1, 1};
    for (int block = 0; block < ctas; ++block) emulator::run_cta(block, kThreads, [] { add_splits(the_args); });
    return check::differences(weight.results, weight.expected, "weight") == 0 &&
           check::differences(bias.results, bias.expected, "bias") == 0;
}

} // namespace

int main() {
    int wrong = 0;
    for (const int64_t splits : {1, 2, 8, 9, 31, 64, 65, 500})
        for (const int ctas : {1, 3}) {
            const SplitSums weight = {nullptr, nullptr, splits, 3 * 5 * 8 + 2, 3, 5, 7, 8};
            const SplitSums line = {nullptr, nullptr, 510 - splits, 301, 1, 1, 299, 299};
            SplitSums none = line;
            none.rows = 0;
            if (!is_exact(weight, line, ctas)) wrong += std::printf("%d splits of weights\n", int(splits));
            if (!is_exact(line, none, ctas)) wrong += std::printf("%d splits without bias\n", int(510 - splits));
        }
    return wrong == 0 ? 0 : 1;
}
