#pragma once

#include <cstdint>

#include "kernels.hpp"
#include "tile.hpp"

namespace tconv3d::cpu {

/// A dense tensor (n, c, d, h, w) in memory.
struct TensorView {
    const void* data;
    DType dtype;
    Layout layout;
    int64_t channels;
    Extents extents;

    /// Of element (n, c, d, h, 0).
    int64_t row_offset(int64_t n, int64_t c, int64_t d, int64_t h) const;
    /// Between neighbours along w.
    int64_t column_stride() const { return layout == Layout::ncdhw ? 1 : channels; }
};

/// Which part of a tensor a slab holds: the input of the tile that begins at output (q_d, q_h).
struct SlabPlace {
    int64_t n;
    int64_t first_channel;
    int64_t channels;
    int64_t q_d;
    int64_t q_h;
};

/// Copies the planes of the tile's input into the slab, converted to T, with zeros where the tensor ends.
template <typename T>
void pack_slab(const Kernels<T>& kernels, const TensorView& tensor, const IndexMap& map, const Tile& tile,
               const SlabPlace& place, T* slab);

} // namespace tconv3d::cpu
