#pragma once

#include "tconv3d/problem.hpp"

/// What fwd and bwd_data read and write: `in` is src or the gradient of dst, `out` is dst or the gradient of src. Both
/// are correlations from `in` to `out` (docs/math.md).
namespace tconv3d {

inline bool is_fwd(const Problem& problem) {
    return problem.direction == Direction::fwd;
}

/// Channels of a group.
inline int64_t in_channels(const Problem& problem) {
    return is_fwd(problem) ? problem.src_channels_per_group() : problem.dst_channels_per_group();
}
inline int64_t out_channels(const Problem& problem) {
    return is_fwd(problem) ? problem.dst_channels_per_group() : problem.src_channels_per_group();
}

/// Channels of all groups.
inline int64_t all_in_channels(const Problem& problem) {
    return problem.groups * in_channels(problem);
}
inline int64_t all_out_channels(const Problem& problem) {
    return problem.groups * out_channels(problem);
}

inline Extents in_extents(const Problem& problem) {
    return is_fwd(problem) ? problem.src : problem.dst();
}
inline Extents out_extents(const Problem& problem) {
    return is_fwd(problem) ? problem.dst() : problem.src;
}

/// Output phases along each dimension.
inline Extents out_stride(const Problem& problem) {
    return is_fwd(problem) ? problem.stride : Extents{1, 1, 1};
}

/// Input planes along each dimension.
inline Extents in_stride(const Problem& problem) {
    return is_fwd(problem) ? Extents{1, 1, 1} : problem.stride;
}

/// Elements of the output.
inline int64_t out_elements(const Problem& problem) {
    return is_fwd(problem) ? problem.dst_elements() : problem.src_elements();
}

} // namespace tconv3d
