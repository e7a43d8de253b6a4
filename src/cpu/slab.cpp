#include "slab.hpp"

#include <algorithm>

namespace tconv3d::cpu {

int64_t TensorView::row_offset(int64_t n, int64_t c, int64_t d, int64_t h) const {
    if (layout == Layout::ncdhw) return (((n * channels + c) * extents[0] + d) * extents[1] + h) * extents[2];
    return ((n * extents[0] + d) * extents[1] + h) * extents[2] * channels + c;
}

namespace {

/// Positions of a slab's line that exist in a plane: the others are zero.
struct Range {
    int64_t begin;
    int64_t end;
    int64_t first_element; ///< of the tensor, at `begin`
};

/// The line's position 0 is plane element `first`.
Range existing(const Axis& axis, int64_t plane, int64_t first, int64_t positions) {
    const int64_t begin = std::clamp<int64_t>(-first, 0, positions);
    const int64_t end = std::clamp<int64_t>(axis.plane_extent(plane) - first, begin, positions);
    return {begin, end, axis.input(plane, first + begin)};
}

template <typename T>
class PlanePacker {
public:
    PlanePacker(const Kernels<T>& kernels, const TensorView& tensor, const IndexMap& map, const Tile& tile,
                const SlabPlace& place)
        : kernels_(kernels), tensor_(tensor), map_(map), tile_(tile), place_(place) {}

    void pack(int64_t channel, const std::array<int64_t, 3>& planes, T* packed) const {
        const auto& [axis_d, axis_h, axis_w] = map_.axes;
        const Range slices = existing(axis_d, planes[0], place_.q_d + axis_d.shift_min, tile_.slices);
        const Range rows = existing(axis_h, planes[1], place_.q_h + axis_h.shift_min, tile_.rows);
        const Range columns = existing(axis_w, planes[2], axis_w.shift_min, tile_.columns);
        const int64_t slice_elements = tile_.slice_pitch * tile_.row_pitch;
        for (int64_t z = 0; z < tile_.slices; ++z) {
            T* slice = packed + z * slice_elements;
            if (z < slices.begin || z >= slices.end) {
                zero_rows(slice, 0, tile_.rows);
                continue;
            }
            zero_rows(slice, 0, rows.begin);
            const int64_t d = slices.first_element + (z - slices.begin) * axis_d.in_stride;
            pack_rows(channel, d, rows, columns, slice + rows.begin * tile_.row_pitch);
            zero_rows(slice, rows.end, tile_.rows);
        }
        const int64_t last_row = (tile_.slices - 1) * tile_.slice_pitch + tile_.rows - 1;
        std::fill(packed + last_row * tile_.row_pitch + tile_.columns, packed + tile_.plane_pitch, T(0));
    }

private:
    void zero_rows(T* slice, int64_t begin, int64_t end) const {
        if (begin == end) return;
        std::fill(slice + begin * tile_.row_pitch, slice + (end - 1) * tile_.row_pitch + tile_.columns, T(0));
    }

    void pack_rows(int64_t channel, int64_t d, const Range& rows, const Range& columns, T* first_row) const {
        const int64_t stride = tensor_.column_stride();
        SlabRows block{};
        block.offset = tensor_.row_offset(place_.n, channel, d, rows.first_element) + columns.first_element * stride;
        block.column_stride = map_.axes[2].in_stride * stride;
        block.row_stride = map_.axes[1].in_stride * tensor_.extents[2] * stride;
        block.rows = rows.end - rows.begin;
        block.zeros_before = columns.begin;
        block.columns = columns.end - columns.begin;
        block.zeros_after = tile_.columns - columns.end;
        block.row_pitch = tile_.row_pitch;
        kernels_.load_rows(tensor_.dtype, tensor_.data, block, first_row);
    }

    const Kernels<T>& kernels_;
    const TensorView& tensor_;
    const IndexMap& map_;
    const Tile& tile_;
    const SlabPlace& place_;
};

} // namespace

template <typename T>
void pack_slab(const Kernels<T>& kernels, const TensorView& tensor, const IndexMap& map, const Tile& tile,
               const SlabPlace& place, T* slab) {
    const PlanePacker<T> packer(kernels, tensor, map, tile, place);
    for (int64_t c = 0; c < place.channels; ++c) {
        T* plane = slab + c * tile.channel_pitch;
        for (int64_t d : map.axes[0].planes) {
            for (int64_t h : map.axes[1].planes) {
                for (int64_t w : map.axes[2].planes) {
                    packer.pack(place.first_channel + c, {d, h, w}, plane);
                    plane += tile.plane_pitch;
                }
            }
        }
    }
}

template void pack_slab<float>(const Kernels<float>&, const TensorView&, const IndexMap&, const Tile&, const SlabPlace&,
                               float*);
template void pack_slab<double>(const Kernels<double>&, const TensorView&, const IndexMap&, const Tile&,
                                const SlabPlace&, double*);

} // namespace tconv3d::cpu
