#pragma once

#include <array>
#include <cstdint>

#include "cuda/runtime/driver_api.hpp"
#include "cuda/tensorcore/config.hpp"

/// What TMA sees of the input.
namespace tconv3d::cuda::tensorcore {

/// Extents and strides, from the contiguous dimension on, and the box that is copied at once. Groups count as images
/// where channels are planes; where channels are contiguous, slices do.
struct MapShape {
    std::array<int64_t, 5> extents;
    std::array<int64_t, 5> strides;                 ///< in elements
    std::array<int64_t, 5> box;                     ///< elements that are copied
    int64_t swizzle;                                ///< bytes of a swizzled row, 0 where none are
    std::array<int64_t, 5> steps = {1, 1, 1, 1, 1}; ///< from an element that is copied to the next one
};

MapShape map_shape(const Problem& problem, const Config& config);

/// Bytes of a stage, as TMA brings it.
int64_t box_bytes(const Problem& problem, const Config& config);

/// The map of a tensor of the problem. fp32 is rounded to tf32 while it is copied, unless it is to be split.
TensorMap encode_map(const Problem& problem, const MapShape& shape, const void* tensor);
/// The map of the input tensor.
TensorMap encode_map(const Problem& problem, const Config& config, const void* in);

} // namespace tconv3d::cuda::tensorcore
