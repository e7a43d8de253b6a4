#include "column_geometry.hpp"
#include "columns.hpp"
#include "core/dtype_dispatch.hpp"
#include "output_row.hpp"
#include "workspace.hpp"

namespace tconv3d::cpu {

namespace {

/// What a task holds at once.
struct Sizes {
    RowChunks chunks;     ///< of src
    int64_t in_channels;  ///< of a block
    int64_t in_slices;    ///< whose products are summed before they are moved to dst
    int64_t out_channels; ///< of a task
    int64_t out_rows;
    int64_t out_slices;
};

template <typename T>
Sizes choose_sizes(const Problem& problem, const ColumnGeometry& geometry, const Kernels<T>& kernels) {
    // The input stays in a second-level cache; the outputs of a task, which are added to in turn, nearly do.
    constexpr int64_t kSlabElements = 512 * 1024 / static_cast<int64_t>(sizeof(T));
    constexpr int64_t kSumElements = 1024 * 1024 / static_cast<int64_t>(sizeof(T));
    const RowChunks chunks(geometry, kernels.vector_lanes);
    const int64_t ci = problem.src_channels_per_group(), co = problem.dst_channels_per_group();
    const int64_t height = geometry.axes[1].dst, width = geometry.axes[2].dst;
    const int64_t step = width <= kSumElements / kernels.correlate_channels ? kernels.correlate_channels : 1;
    // Few slices leave few tasks: then rows make more of them.
    constexpr int64_t kTasksWanted = 8, kFewestRows = 8;
    const int64_t parts =
        cuts(kTasksWanted, problem.groups * std::max<int64_t>(problem.batch, 1) * geometry.axes[0].dst);
    const int64_t rows = std::min(fitting(kSumElements, width * std::min(step, co), height, 1),
                                  std::max(cuts(height, parts), kFewestRows));
    const int64_t in_channels = fitting(kSlabElements, chunks.lane_pitch, ci, 1);
    return {chunks,
            in_channels,
            fitting(kSlabElements, in_channels * chunks.lane_pitch, std::max<int64_t>(geometry.taps[0].count, 1), 1),
            fitting(kSumElements, rows * width, co, step),
            rows,
            slices_of_task(geometry.axes[0].dst)};
}

/// Rows of the product are (tap w, output channel) of one tap along h, in blocks of the register block's.
template <typename T>
class ColumnsFwd final : public Kernel {
public:
    ColumnsFwd(const Problem& problem, const Epilogue& epilogue, Isa isa)
        : problem_(problem), epilogue_(epilogue), isa_(isa), kernels_(cpu::kernels<T>(isa)), geometry_(problem),
          has_products_(geometry_.has_products()),
          d_taps_(problem.kernel[0], problem.stride[0], problem.padding[0], problem.dilation[0]),
          in_channels_(problem.src_channels_per_group()), out_channels_(problem.dst_channels_per_group()),
          sizes_(choose_sizes(problem, geometry_, kernels_)) {}

    size_t workspace_bytes(int workers) const override { return layout(workers).bytes(); }

    std::string describe() const override {
        return std::string("columns, ") + name(isa_) + ": " + geometry_.describe() + ", " +
               std::to_string(sizes_.chunks.rows) + " rows x " + std::to_string(sizes_.in_channels) +
               " input channels, " + std::to_string(sizes_.out_rows) + " output rows x " +
               std::to_string(sizes_.out_channels) + " channels, " + std::to_string(task_count()) + " tasks";
    }

    void execute(const Arguments& arguments, Executor& executor, void* workspace) const override {
        const Workspace layout = this->layout(executor.workers());
        T* packed = layout.shared<T>(workspace);
        if (has_products_) pack_weights(arguments.weight, executor, packed);
        const OutputRows<T> output(problem_, epilogue_, kernels_, arguments);
        const std::vector<IndexRange> column_ranges = geometry_.column_ranges();
        executor.run(task_count(), [&](int64_t index, int worker) {
            const ColumnTask task = task_at(index);
            Parts parts = parts_of(layout.of_worker<T>(workspace, worker));
            parts.weights = packed;
            parts.column_ranges = column_ranges.data();
            for (int64_t i = 0; i < task.slices.count; ++i) {
                const int64_t out_d = task.slices.first + i;
                std::fill_n(parts.sums, task.channels.count * task.rows.count * dst_width(), T(0));
                if (has_products_) accumulate(task, out_d, arguments.src, parts);
                store(task, out_d, output, parts);
            }
        });
    }

private:
    /// Where a worker keeps what.
    struct Parts {
        T* slab;     ///< [slice][channel][lane]
        T* products; ///< [row of the register block][lane]
        T* sums;     ///< [output channel][output row][column]
        T* row;      ///< what OutputRows asks for
        const T* weights;
        const IndexRange* column_ranges;
    };

    int64_t dst_width() const { return geometry_.axes[2].dst; }
    int64_t width() const { return geometry_.sources[2].count; }
    int64_t lane_pitch() const { return sizes_.chunks.lane_pitch; }
    int64_t slab_elements() const { return sizes_.in_slices * sizes_.in_channels * lane_pitch(); }
    int64_t product_elements() const { return kernels_.correlate_channels * lane_pitch(); }
    int64_t sum_elements() const { return sizes_.out_channels * sizes_.out_rows * dst_width(); }

    Parts parts_of(T* worker) const {
        T* sums = worker + slab_elements() + product_elements();
        return {worker, worker + slab_elements(), sums, sums + sum_elements(), nullptr, nullptr};
    }

    Workspace layout(int workers) const {
        const Checked weights = problem_.weight_elements() / problem_.taps() * geometry_.all_taps();
        return Workspace::of<T>(
            weights, Checked(slab_elements()) + product_elements() + sum_elements() + Checked(2) * dst_width(),
            workers);
    }

    int64_t channel_tiles() const { return cuts(out_channels_, sizes_.out_channels); }
    int64_t row_tiles() const { return cuts(geometry_.axes[1].dst, sizes_.out_rows); }
    int64_t slice_tiles() const { return cuts(geometry_.axes[0].dst, sizes_.out_slices); }

    int64_t task_count() const {
        return problem_.batch * problem_.groups * channel_tiles() * row_tiles() * slice_tiles();
    }

    ColumnTask task_at(int64_t index) const {
        TaskNumber number(index);
        ColumnTask task{};
        task.slices = number.next(geometry_.axes[0].dst, sizes_.out_slices);
        task.rows = number.next(geometry_.axes[1].dst, sizes_.out_rows);
        task.channels = number.next(out_channels_, sizes_.out_channels);
        task.group = number.next(problem_.groups, 1).first;
        task.n = number.rest();
        return task;
    }

    /// [group][channels of a task][tap h][block of rows][block of input channels][tap d][input][row]
    int64_t weight_offset(int64_t group, const IndexRange& channels, int64_t tap_h) const {
        const int64_t channels_before = group * out_channels_ + channels.first;
        return (channels_before * geometry_.plane_taps() + tap_h * geometry_.taps[2].count * channels.count) *
               geometry_.taps[0].count * in_channels_;
    }

    /// An input channel's part of the weight is read whole before the next: it passes through the cache once.
    void pack_weights(const void* weight, Executor& executor, T* packed) const {
        const int64_t tiles = channel_tiles();
        executor.run(problem_.groups * tiles * in_channels_, [&](int64_t task, int) {
            const int64_t in = task % in_channels_, first = task / in_channels_ % tiles * sizes_.out_channels;
            const int64_t group = task / in_channels_ / tiles;
            const IndexRange channels{first, std::min(sizes_.out_channels, out_channels_ - first)};
            with_storage(problem_.dtype, [&](auto* tag) {
                const auto* from = static_cast<decltype(tag)>(const_cast<void*>(weight)) +
                                   ((group * in_channels_ + in) * out_channels_ + first) * problem_.taps();
                for (int64_t tap_h = 0; tap_h < geometry_.taps[1].count; ++tap_h)
                    pack_input(from, in, channels.count, tap_h, packed + weight_offset(group, channels, tap_h));
            });
        });
    }

    /// The weights of one input channel and one tap along h, in all blocks of rows.
    template <typename Storage>
    void pack_input(const Storage* weight, int64_t in, int64_t channels, int64_t tap_h, T* packed) const {
        const int64_t block_first = in / sizes_.in_channels * sizes_.in_channels;
        const int64_t block = std::min(sizes_.in_channels, in_channels_ - block_first);
        const int64_t rows = geometry_.taps[2].count * channels, taps_d = geometry_.taps[0].count;
        const int64_t tap_d_stride = problem_.kernel[1] * problem_.kernel[2];
        int64_t tap_w = 0, channel = 0;
        for (int64_t row = 0; row < rows; row += kernels_.correlate_channels) {
            const int64_t count = std::min(kernels_.correlate_channels, rows - row);
            T* to = packed + (row * in_channels_ + block_first * count) * taps_d + (in - block_first) * count;
            for (int64_t i = 0; i < count; ++i) {
                const Storage* from = weight + channel * problem_.taps() + geometry_.tap_index(0, tap_h, tap_w);
                for (int64_t tap_d = 0; tap_d < taps_d; ++tap_d)
                    to[tap_d * block * count + i] = static_cast<T>(load(from[tap_d * tap_d_stride]));
                if (++channel == channels) {
                    channel = 0;
                    ++tap_w;
                }
            }
        }
    }

    /// Adds the products of all src slices that meet the output slice.
    void accumulate(const ColumnTask& task, int64_t out_d, const void* src, const Parts& parts) const {
        const TapRange met = d_taps_.at(out_d, problem_.src[0]);
        if (met.count == 0) return;
        const IndexRange all = geometry_.axes[1].reaching_sources(task.rows.first, task.rows.first + task.rows.count);
        for (int64_t row = 0; row < all.count; row += sizes_.chunks.rows) {
            const IndexRange chunk{all.first + row, std::min(sizes_.chunks.rows, all.count - row)};
            if (!meets(task, chunk)) continue;
            for (int64_t in = 0; in < in_channels_; in += sizes_.in_channels) {
                for (int64_t first = 0; first < met.count; first += sizes_.in_slices) {
                    const int64_t skipped = first * d_taps_.tap_step();
                    const TapRange block{met.tap + skipped, met.in - first * d_taps_.in_back(),
                                         std::min(sizes_.in_slices, met.count - first)};
                    pack_slab(task, src, block, in, chunk, parts.slab);
                    for (int64_t tap_h = 0; tap_h < geometry_.taps[1].count; ++tap_h)
                        multiply(task, block, in, chunk, tap_h, parts);
                }
            }
        }
    }

    IndexRange rows_of(const ColumnTask& task, int64_t tap_h, const IndexRange& chunk) const {
        return geometry_.rows_of(tap_h, chunk, task.rows.first, task.rows.first + task.rows.count);
    }

    /// Whether some tap takes a row of the chunk to one of the task.
    bool meets(const ColumnTask& task, const IndexRange& chunk) const {
        for (int64_t tap_h = 0; tap_h < geometry_.taps[1].count; ++tap_h)
            if (rows_of(task, tap_h, chunk).count > 0) return true;
        return false;
    }

    void pack_slab(const ColumnTask& task, const void* src, const TapRange& met, int64_t in, const IndexRange& chunk,
                   T* slab) const {
        const TensorView view{src, problem_.dtype, problem_.layout, problem_.src_channels, problem_.src};
        const int64_t end = std::min(in + sizes_.in_channels, in_channels_);
        for (int64_t slice = 0; slice < met.count; ++slice) {
            const int64_t d = met.in - slice * d_taps_.in_back();
            for (int64_t c = in; c < end; ++c, slab += lane_pitch())
                pack_rows(kernels_, view, geometry_, task.n, task.group * in_channels_ + c, d, chunk, slab);
        }
    }

    /// The products of one tap along h with the rows of the chunk that it takes to the task.
    void multiply(const ColumnTask& task, const TapRange& met, int64_t in, const IndexRange& chunk, int64_t tap_h,
                  const Parts& parts) const {
        const IndexRange src_rows = rows_of(task, tap_h, chunk);
        if (src_rows.count == 0) return;
        const int64_t first_lane = (src_rows.first - chunk.first) * width(), lanes = src_rows.count * width();
        const int64_t channels = std::min(sizes_.in_channels, in_channels_ - in);
        const int64_t rows = geometry_.taps[2].count * task.channels.count;
        const int64_t taps_d = geometry_.taps[0].count, step = kernels_.correlate_vectors * kernels_.vector_lanes;
        std::vector<ActiveTap> taps(static_cast<size_t>(met.count));
        for (int64_t i = 0; i < met.count; ++i)
            taps[static_cast<size_t>(i)] = {met.tap + i * d_taps_.tap_step() - geometry_.taps[0].first,
                                            i * channels * lane_pitch()};
        CorrelateBlock<T> block{};
        block.channel_pitch = lane_pitch();
        block.channels = channels;
        block.taps = taps.data();
        block.tap_count = met.count;
        block.sums_pitch = lane_pitch();
        const T* weights = parts.weights + weight_offset(task.group, task.channels, tap_h);
        for (int64_t row = 0; row < rows; row += kernels_.correlate_channels) {
            const int64_t count = std::min(kernels_.correlate_channels, rows - row);
            block.weights = weights + (row * in_channels_ + in * count) * taps_d;
            for (int64_t lane = 0; lane < lanes; lane += step) {
                block.slab = parts.slab + first_lane + lane;
                block.sums = parts.products + lane;
                kernels_.correlate(count, cuts(std::min(step, lanes - lane), kernels_.vector_lanes), block);
            }
            for (int64_t i = 0; i < count; ++i)
                scatter(task, src_rows, tap_h, row + i, parts.products + i * lane_pitch(), parts);
        }
    }

    /// Adds one row of the product to the outputs that its src voxels go to.
    void scatter(const ColumnTask& task, const IndexRange& src_rows, int64_t tap_h, int64_t row, const T* products,
                 const Parts& parts) const {
        const AxisReach &axis_h = geometry_.axes[1], &axis_w = geometry_.axes[2];
        const int64_t tap_w = row / task.channels.count, channel = row % task.channels.count;
        const IndexRange columns = parts.column_ranges[tap_w];
        if (columns.count == 0) return;
        const int64_t first_row = axis_h.output(src_rows.first, geometry_.taps[1].first + tap_h) - task.rows.first;
        T* out = parts.sums + (channel * task.rows.count + first_row) * dst_width() +
                 axis_w.output(columns.first, geometry_.taps[2].first + tap_w);
        const T* from = products + columns.first - geometry_.sources[2].first;
        for (int64_t i = 0; i < src_rows.count; ++i)
            kernels_.add_spread(from + i * width(), columns.count, out + i * axis_h.stride * dst_width(),
                                axis_w.stride);
    }

    void store(const ColumnTask& task, int64_t out_d, const OutputRows<T>& output, const Parts& parts) const {
        const T* sums = parts.sums;
        for (int64_t c = 0; c < task.channels.count; ++c) {
            for (int64_t h = 0; h < task.rows.count; ++h) {
                std::copy_n(sums, dst_width(), parts.row);
                output.store(task.n, task.group * out_channels_ + task.channels.first + c, out_d, task.rows.first + h,
                             parts.row);
                sums += dst_width();
            }
        }
    }

    Problem problem_;
    Epilogue epilogue_;
    Isa isa_;
    const Kernels<T>& kernels_;
    ColumnGeometry geometry_;
    bool has_products_;
    cuda::FwdTaps d_taps_;
    int64_t in_channels_; ///< of a group
    int64_t out_channels_;
    Sizes sizes_;
};

} // namespace

std::unique_ptr<Kernel> make_columns_fwd(const Problem& problem, const Epilogue& epilogue, Isa isa) {
    if (problem.dtype == DType::f64) return std::make_unique<ColumnsFwd<double>>(problem, epilogue, isa);
    return std::make_unique<ColumnsFwd<float>>(problem, epilogue, isa);
}

} // namespace tconv3d::cpu
