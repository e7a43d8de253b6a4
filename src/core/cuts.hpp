#pragma once

#include <cstdint>

namespace tconv3d {

/// How many parts of that size cover the whole.
inline int64_t cuts(int64_t whole, int64_t part) {
    return (whole + part - 1) / part;
}

inline int64_t round_up(int64_t value, int64_t multiple) {
    return cuts(value, multiple) * multiple;
}

/// Division that rounds down, also for negative numerators.
inline int64_t floor_div(int64_t numerator, int64_t denominator) {
    const int64_t quotient = numerator / denominator;
    return quotient - (numerator % denominator < 0 ? 1 : 0);
}

} // namespace tconv3d
