#include "column_geometry.hpp"

namespace tconv3d::cpu {

ColumnGeometry::ColumnGeometry(const Problem& problem) : axes(axis_reaches(problem)) {
    for (size_t i = 0; i < 3; ++i) {
        taps[i] = axes[i].reaching_taps();
        sources[i] = axes[i].reaching_sources();
    }
}

bool ColumnGeometry::has_products() const {
    return std::all_of(axes.begin(), axes.end(), [](const AxisReach& axis) { return axis.pairs() > 0; });
}

std::string ColumnGeometry::describe() const {
    return std::to_string(all_taps()) + " of " + std::to_string(axes[0].kernel * axes[1].kernel * axes[2].kernel) +
           " taps";
}

int64_t ColumnGeometry::tap_index(int64_t d, int64_t h, int64_t w) const {
    const int64_t row = (taps[0].first + d) * axes[1].kernel + taps[1].first + h;
    return row * axes[2].kernel + taps[2].first + w;
}

std::vector<IndexRange> ColumnGeometry::column_ranges() const {
    std::vector<IndexRange> ranges;
    ranges.reserve(static_cast<size_t>(taps[2].count));
    for (int64_t tap = 0; tap < taps[2].count; ++tap) ranges.push_back(axes[2].sources(taps[2].first + tap));
    return ranges;
}

IndexRange ColumnGeometry::rows_of(int64_t tap_h, const IndexRange& chunk, int64_t first, int64_t end) const {
    return common(axes[1].sources(taps[1].first + tap_h, first, end), chunk);
}

IndexRange common(const IndexRange& a, const IndexRange& b) {
    const int64_t first = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
    return {first, std::max<int64_t>(end - first, 0)};
}

RowChunks::RowChunks(const ColumnGeometry& geometry, int64_t vector_lanes) {
    const int64_t width = std::max<int64_t>(geometry.sources[2].count, 1);
    rows = std::clamp<int64_t>(kLanesWanted / width, 1, std::max<int64_t>(geometry.sources[1].count, 1));
    lane_pitch = round_up(rows * width, vector_lanes) + vector_lanes;
}

template <typename T>
void pack_rows(const Kernels<T>& kernels, const TensorView& src, const ColumnGeometry& geometry, int64_t n,
               int64_t channel, int64_t d, const IndexRange& chunk, T* lanes) {
    const IndexRange& columns = geometry.sources[2];
    SlabRows block{};
    block.column_stride = src.column_stride();
    block.row_stride = src.extents[2] * block.column_stride;
    block.offset = src.row_offset(n, channel, d, chunk.first) + columns.first * block.column_stride;
    block.rows = chunk.count;
    block.columns = columns.count;
    block.row_pitch = columns.count;
    kernels.load_rows(src.dtype, src.data, block, lanes);
}

template void pack_rows<float>(const Kernels<float>&, const TensorView&, const ColumnGeometry&, int64_t, int64_t,
                               int64_t, const IndexRange&, float*);
template void pack_rows<double>(const Kernels<double>&, const TensorView&, const ColumnGeometry&, int64_t, int64_t,
                                int64_t, const IndexRange&, double*);

template <typename T>
ColumnPacker<T>::ColumnPacker(const Kernels<T>& kernels, const TensorView& grad_dst, const ColumnGeometry& geometry)
    : kernels_(kernels), grad_dst_(grad_dst), geometry_(geometry), column_ranges_(geometry.column_ranges()) {}

template <typename T>
void ColumnPacker<T>::pack(const ColumnPlace& place, int64_t channel, const IndexRange& columns, int64_t pitch,
                           T* packed) const {
    const int64_t taps = geometry_.plane_taps(), taps_w = geometry_.taps[2].count;
    for (int64_t i = 0; i < columns.count; ++i) {
        const int64_t column = columns.first + i, tap = column % taps;
        pack_column(place, channel + column / taps, tap / taps_w, tap % taps_w, packed + i * pitch);
    }
}

template <typename T>
void ColumnPacker<T>::pack_column(const ColumnPlace& place, int64_t channel, int64_t tap_h, int64_t tap_w,
                                  T* column) const {
    const AxisReach &axis_h = geometry_.axes[1], &axis_w = geometry_.axes[2];
    const int64_t width = geometry_.sources[2].count, stride = grad_dst_.column_stride();
    const IndexRange h = geometry_.rows_of(tap_h, place.rows, 0, axis_h.dst);
    const IndexRange w = column_ranges_[static_cast<size_t>(tap_w)];
    if (h.count == 0 || w.count == 0) {
        std::fill_n(column, place.rows.count * width, T(0));
        return;
    }
    SlabRows block{};
    block.offset =
        grad_dst_.row_offset(place.n, channel, place.out_d, axis_h.output(h.first, geometry_.taps[1].first + tap_h)) +
        axis_w.output(w.first, geometry_.taps[2].first + tap_w) * stride;
    // Where there is no second column or row, a stride may be larger than anything in memory.
    block.column_stride = w.count > 1 ? axis_w.stride * stride : 0;
    block.row_stride = h.count > 1 ? axis_h.stride * axis_w.dst * stride : 0;
    block.rows = h.count;
    block.zeros_before = w.first - geometry_.sources[2].first;
    block.columns = w.count;
    block.zeros_after = width - block.zeros_before - w.count;
    block.row_pitch = width;
    const int64_t before = (h.first - place.rows.first) * width, filled = before + h.count * width;
    std::fill_n(column, before, T(0));
    kernels_.load_rows(grad_dst_.dtype, grad_dst_.data, block, column + before);
    std::fill_n(column + filled, place.rows.count * width - filled, T(0));
}

template class ColumnPacker<float>;
template class ColumnPacker<double>;

} // namespace tconv3d::cpu
