#pragma once

// The tile of a work item and its staged plane: constants, or an argument where a kernel serves tensors of any size
// (kAnySize).
#include "schedule/constants.cuh"

namespace {

/// A number below 2^31 / divisor, divided.
__device__ __forceinline__ int quotient(int number, Reciprocal divisor) {
    return static_cast<int>(static_cast<uint64_t>(2 * number) * divisor.multiplier >> 32);
}

struct Geometry {
    const TileGeometry& given;

    __device__ __forceinline__ explicit Geometry(const TensorCoreArguments& args) : given(args.geometry) {}

    /// Positions q of a work item, and images, or slices of one image.
    __device__ __forceinline__ int tile_h() const { return kAnySize ? given.tile_h : kTileH; }
    __device__ __forceinline__ int tile_w() const { return kAnySize ? given.tile_w : kTileW; }
    __device__ __forceinline__ int images() const { return kAnySize ? given.images : kImages; }
    /// Images of the batch.
    __device__ __forceinline__ int item_images() const { return images() / kSlices; }

    /// Positions of the staged plane.
    __device__ __forceinline__ int rows() const { return kAnySize ? given.rows : kPlaneRows; }
    __device__ __forceinline__ int pitch() const { return kAnySize ? given.pitch : kPitch; }
    __device__ __forceinline__ int row_pitch() const { return kAnySize ? given.pitch : kRowPitch; }
    __device__ __forceinline__ int image_pitch() const { return kAnySize ? given.rows * given.pitch : kImagePitch; }
    __device__ __forceinline__ int plane_pitch() const { return kAnySize ? given.plane_pitch : kInPlanePitch; }
    __device__ __forceinline__ int tail() const { return kAnySize ? given.tail : kTail; }
    /// Those of an input plane that are loaded.
    __device__ __forceinline__ int loaded() const { return images() * rows() * pitch(); }

    __device__ __forceinline__ int image_of(int position) const {
        return kAnySize ? quotient(position, given.by_image) : position / kImagePitch;
    }
    __device__ __forceinline__ int row_of(int position) const {
        return kAnySize ? quotient(position, given.by_pitch) : position / kPitch;
    }

    /// Rows of a raw stage, elements from a row of it to the next, and bytes of it.
    __device__ __forceinline__ int raw_rows() const { return kAnySize ? given.raw_rows : kBoxRows; }
    __device__ __forceinline__ int raw_pitch() const { return kAnySize ? given.raw_pitch : kRawPitch; }
    __device__ __forceinline__ int raw_bytes() const { return kAnySize ? given.raw_bytes : kRawBoxBytes; }

    /// Consumers that have positions.
    __device__ __forceinline__ int consumers() const { return kAnySize ? given.warpgroups : kActiveConsumers; }
};

} // namespace
