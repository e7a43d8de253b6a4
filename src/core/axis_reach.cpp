#include "axis_reach.hpp"

#include <algorithm>

namespace tconv3d {

namespace {

__extension__ using Wide = __int128;

/// Σ over 0 <= x < count of ⌊(slope · x + offset) / divisor⌋, for offset >= 0: whole slopes and offsets are summed as
/// they are; what is left counts the points below a line, which are those beside the line with x and y exchanged.
template <typename Integer>
Integer sum_of_floors(Integer count, Integer slope, Integer offset, Integer divisor) {
    Integer sum = 0, sign = 1;
    while (count > 0) {
        sum += sign * (count * (count - 1) / 2 * (slope / divisor) + count * (offset / divisor));
        slope %= divisor;
        offset %= divisor;
        const Integer top = (slope * (count - 1) + offset) / divisor;
        if (top == 0) break;
        // Σ_x ⌊(a·x + b) / m⌋ = n·top − Σ_y ⌈(m·(y + 1) − b) / a⌉ over y < top, where n − ⌈…⌉ counts the x of a y.
        sum += sign * count * top;
        sign = -sign;
        offset = divisor - offset + slope - 1;
        count = top;
        std::swap(slope, divisor);
    }
    return sum;
}

/// How many (i, tap) with i < src and tap < kernel have stride · i + dilation · tap < limit.
template <typename Integer>
Integer pairs_below(const AxisReach& axis, int64_t limit) {
    if (limit <= 0) return 0;
    // With the first `full` taps all of src is below the limit; from `some` on, nothing is.
    const int64_t some = std::min(axis.kernel, (limit - 1) / axis.dilation + 1);
    const int64_t above = limit - 1 - axis.stride * (axis.src - 1);
    const int64_t full = above < 0 ? 0 : std::min(axis.kernel, above / axis.dilation + 1);
    // Tap some − 1 − x has ⌊(limit − 1 − dilation · (some − 1 − x)) / stride⌋ + 1 of them.
    const int64_t last = limit - 1 - axis.dilation * (some - 1);
    return Integer(full) * axis.src + (some - full) +
           sum_of_floors<Integer>(some - full, axis.dilation, last, axis.stride);
}

template <typename Integer>
double meeting_pairs(const AxisReach& axis) {
    return static_cast<double>(pairs_below<Integer>(axis, axis.dst + axis.padding) -
                               pairs_below<Integer>(axis, axis.padding));
}

} // namespace

IndexRange AxisReach::sources(int64_t tap, int64_t first, int64_t end) const {
    return cuda::indexes_within(stride, output(0, tap) - first, src, end - first);
}

IndexRange AxisReach::reaching_sources(int64_t first, int64_t end) const {
    // The first that the last tap takes so far, and all up to the last that tap 0 takes no further.
    const int64_t before = first + padding - dilation * (kernel - 1);
    const int64_t begin = before <= 0 ? 0 : (before - 1) / stride + 1;
    return {begin, std::max<int64_t>(std::min(src, (end - 1 + padding) / stride + 1) - begin, 0)};
}

double AxisReach::pairs() const {
    // Every plan counts them, most often small ones: products of two of these numbers then fit in 64 bits.
    constexpr int64_t kSmall = int64_t{1} << 30;
    const bool small = std::max({src, kernel, stride, dilation, padding, dst}) < kSmall;
    return small ? meeting_pairs<int64_t>(*this) : meeting_pairs<Wide>(*this);
}

std::array<AxisReach, 3> axis_reaches(const Problem& problem) {
    const Extents dst = problem.dst();
    std::array<AxisReach, 3> axes;
    for (size_t i = 0; i < 3; ++i) {
        axes[i] = {problem.src[i],     dst[i], problem.kernel[i], problem.stride[i], problem.padding[i],
                   problem.dilation[i]};
    }
    return axes;
}

} // namespace tconv3d
