#include "cuda/tensorcore/tensor_map.hpp"

#include "core/direction.hpp"
#include "cuda/runtime/driver.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d::cuda::tensorcore {

namespace {

int map_type(const Problem& problem) {
    if (problem.dtype == DType::bf16) return kTensorMapBFloat16;
    if (problem.dtype == DType::f16) return kTensorMapFloat16;
    return parts(problem) == 2 ? kTensorMapFloat32 : kTensorMapTFloat32;
}

int map_swizzle(int64_t row_bytes) {
    if (row_bytes == 0) return kTensorMapSwizzleNone;
    return row_bytes == 128 ? kTensorMapSwizzle128 : row_bytes == 64 ? kTensorMapSwizzle64 : kTensorMapSwizzle32;
}

MapShape channels_last_shape(const Problem& problem, const Config& config) {
    const int64_t step = channel_step(problem), channels = in_channels(problem), voxel = all_in_channels(problem);
    const auto [d, h, w] = in_extents(problem);
    const int64_t plane = h * w, volume = d * plane;
    const bool swizzled = config.input.source == Source::swizzled;
    const int64_t together = swizzled ? config.input.steps * step : step / 2;
    const int64_t swizzle = swizzled ? config.position_bytes() : 0;
    const Extents step_of = in_stride(problem); // a box brings one input plane
    if (config.plane.interleaved && config.tile.images > 1)
        return {{channels, w, problem.batch, h, d},
                {1, voxel, volume * voxel, w * voxel, plane * voxel},
                {together, config.plane.pitch, config.tile.images, config.plane.rows, 1},
                swizzle,
                {1, step_of[2], 1, step_of[1], 1}};
    return {{channels, problem.groups, w, h, d * problem.batch},
            {1, channels, voxel, w * voxel, plane * voxel},
            {together, 1, config.plane.pitch, config.plane.rows, 1},
            swizzle,
            {1, 1, step_of[2], step_of[1], 1}};
}

} // namespace

MapShape map_shape(const Problem& problem, const Config& config) {
    if (!has_channel_planes(problem)) return channels_last_shape(problem, config);
    const int64_t channels = in_channels(problem);
    const auto [d, h, w] = in_extents(problem);
    const int64_t plane = h * w, volume = d * plane;
    const bool row_boxes = config.input.source == Source::whole_rows;
    const bool whole = config.input.source == Source::whole_planes || row_boxes;
    return {{whole ? plane : w, channels, whole ? 1 : h, d, problem.batch * problem.groups},
            {1, volume, whole ? plane : w, plane, channels * volume},
            {config.input.raw_pitch, config.input.steps * channel_step(problem), whole ? 1 : config.input.box_rows,
             config.tile.slices, row_boxes ? 1 : config.tile.images / config.tile.slices},
            0};
}

int64_t box_bytes(const Problem& problem, const Config& config) {
    int64_t bytes = bytes_per_element(problem.dtype);
    if (config.input.source == Source::whole_rows) bytes *= config.tile.images * config.input.boxes;
    for (const int64_t extent : map_shape(problem, config).box) bytes *= extent;
    return bytes;
}

TensorMap encode_map(const Problem& problem, const MapShape& shape, const void* tensor) {
    uint64_t extents[5], strides[4];
    uint32_t box[5], element_strides[5];
    for (size_t i = 0; i < 5; ++i) {
        extents[i] = static_cast<uint64_t>(shape.extents[i]);
        element_strides[i] = static_cast<uint32_t>(shape.steps[i]);
        box[i] = static_cast<uint32_t>(shape.box[i] * shape.steps[i]);
        if (i > 0) strides[i - 1] = static_cast<uint64_t>(shape.strides[i] * bytes_per_element(problem.dtype));
    }
    TensorMap map;
    if (driver().cuTensorMapEncodeTiled == nullptr)
        throw KernelFailure("drivers older than CUDA 12.0 have no cuTensorMapEncodeTiled, which this kernel needs");
    check_kernel(driver().cuTensorMapEncodeTiled(&map, map_type(problem), 5, const_cast<void*>(tensor), extents,
                                                 strides, box, element_strides, kTensorMapInterleaveNone,
                                                 map_swizzle(shape.swizzle), kTensorMapPromote128, kTensorMapFillZero),
                 "cuTensorMapEncodeTiled");
    return map;
}

TensorMap encode_map(const Problem& problem, const Config& config, const void* in) {
    return encode_map(problem, map_shape(problem, config), in);
}

} // namespace tconv3d::cuda::tensorcore
