#pragma once

// The tile of a work item and its staged plane: constants, or an argument where a kernel serves tensors of any size
// (kAnySize).
#include "schedule/constants.cuh"

namespace {

/// A number below 2^31 / divisor, divided by it.
__device__ __forceinline__ int quotient(int number, Reciprocal divisor) {
    return static_cast<int>(static_cast<uint64_t>(2 * number) * divisor.multiplier >> 32);
}

struct Geometry {
    const TileGeometry& given;

    __device__ __forceinline__ explicit Geometry(const TensorCoreArguments& args) : given(args.geometry) {}

    /// The tile of a work item: positions q along H and W, and images, or slices of one image.
    __device__ __forceinline__ int tile_h() const { return kAnySize ? given.tile_h : kTileH; }
    __device__ __forceinline__ int tile_w() const { return kAnySize ? given.tile_w : kTileW; }
    __device__ __forceinline__ int images() const { return kAnySize ? given.images : kImages; }
    /// Images of the batch that a work item has.
    __device__ __forceinline__ int item_images() const { return images() / kSlices; }

    /// The staged plane: rows of an image, positions from a row of an image to its next, from a row to the next where
    /// images are interleaved, from an image and from an input plane to the next, and behind all rows.
    __device__ __forceinline__ int rows() const { return kAnySize ? given.rows : kPlaneRows; }
    __device__ __forceinline__ int pitch() const { return kAnySize ? given.pitch : kPitch; }
    __device__ __forceinline__ int row_pitch() const { return kAnySize ? given.pitch : kRowPitch; }
    __device__ __forceinline__ int image_pitch() const { return kAnySize ? given.rows * given.pitch : kImagePitch; }
    __device__ __forceinline__ int plane_pitch() const { return kAnySize ? given.plane_pitch : kInPlanePitch; }
    __device__ __forceinline__ int tail() const { return kAnySize ? given.tail : kTail; }
    /// Positions of an input plane that are loaded: all but the tail.
    __device__ __forceinline__ int loaded() const { return images() * rows() * pitch(); }

    /// The image that a position belongs to, and the row that a position of an image belongs to.
    __device__ __forceinline__ int image_of(int position) const {
        return kAnySize ? quotient(position, given.by_image) : position / kImagePitch;
    }
    __device__ __forceinline__ int row_of(int position) const {
        return kAnySize ? quotient(position, given.by_pitch) : position / kPitch;
    }

    /// A raw stage: rows of it, elements from a row to the next, and its bytes.
    __device__ __forceinline__ int raw_rows() const { return kAnySize ? given.raw_rows : kBoxRows; }
    __device__ __forceinline__ int raw_pitch() const { return kAnySize ? given.raw_pitch : kRawPitch; }
    __device__ __forceinline__ int raw_bytes() const { return kAnySize ? given.raw_bytes : kRawBoxBytes; }

    /// Consumers that have positions.
    __device__ __forceinline__ int consumers() const { return kAnySize ? given.warpgroups : kActiveConsumers; }
};

} // namespace
