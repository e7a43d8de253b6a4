#include "bias_gradient.hpp"
#include "column_geometry.hpp"
#include "columns.hpp"
#include "workspace.hpp"

namespace tconv3d::cpu {

namespace {

/// One work item: some src channels of a group and some columns of a tap along d, over a part of the voxels.
struct Task {
    int64_t split;
    int64_t group;
    IndexRange channels; ///< of src, in the group
    int64_t tap_d;
    IndexRange columns;
};

/// grad_weight = src · columnsᵀ, where the columns are (dst channel, tap h, tap w) of one tap along d.
template <typename T>
class ColumnsBwdWeight final : public Kernel {
public:
    ColumnsBwdWeight(const Problem& problem, Isa isa)
        : problem_(problem), isa_(isa), kernels_(cpu::kernels<T>(isa)), geometry_(problem),
          has_products_(geometry_.has_products()), src_channels_(problem.src_channels_per_group()),
          dst_channels_(problem.dst_channels_per_group()), chunks_(geometry_, kernels_.vector_lanes),
          units_at_once_(std::max<int64_t>(RowChunks::kLanesWanted / chunk_lanes(), 1)),
          lane_pitch_(round_up(units_at_once_ * chunk_lanes(), kernels_.vector_lanes)),
          columns_(geometry_.plane_taps() * dst_channels_),
          block_(fitting(kSlabElements, lane_pitch_, std::max<int64_t>(columns_, 1), kernels_.dot_columns)),
          task_channels_(fitting(kRowElements, lane_pitch_, src_channels_, kernels_.dot_rows)), splits_(split_count()) {
    }

    size_t workspace_bytes(int workers) const override { return layout(workers).bytes(); }

    std::string describe() const override {
        return std::string("columns, ") + name(isa_) + ": " + geometry_.describe() + ", " +
               std::to_string(units_at_once_ * chunks_.rows) + " rows x " + std::to_string(block_) + " columns, " +
               std::to_string(task_channels_) + " src channels, " + std::to_string(splits_) + " partial sums";
    }

    void execute(const Arguments& arguments, Executor& executor, void* workspace) const override {
        const Workspace layout = this->layout(executor.workers());
        const TensorView grad_dst{arguments.grad_dst, problem_.dtype, problem_.layout, problem_.dst_channels,
                                  problem_.dst()};
        T* partial_sums = layout.shared<T>(workspace);
        if (has_products_) {
            const ColumnPacker<T> packer(kernels_, grad_dst, geometry_);
            const TensorView src{arguments.src, problem_.dtype, problem_.layout, problem_.src_channels, problem_.src};
            executor.run(splits_ * tasks_of_split(), [&](int64_t index, int worker) {
                T* columns = layout.of_worker<T>(workspace, worker);
                accumulate(task_at(index), src, packer, columns, columns + block_ * lane_pitch_, partial_sums);
            });
        }
        executor.run(problem_.src_channels, [&](int64_t channel, int worker) {
            store_channel(channel, partial_sums, layout.of_worker<T>(workspace, worker), arguments.grad_weight);
        });
        if (arguments.grad_bias) bias_gradient(kernels_, grad_dst, problem_.batch, arguments.grad_bias, executor);
    }

private:
    static constexpr int64_t kSlabElements = 512 * 1024 / static_cast<int64_t>(sizeof(T));
    static constexpr int64_t kRowElements = 256 * 1024 / static_cast<int64_t>(sizeof(T));

    /// Of one src channel: [tap d][dst channel][tap h][tap w].
    int64_t sums_pitch() const { return geometry_.taps[0].count * columns_; }
    int64_t sums_of_split() const { return problem_.src_channels * sums_pitch(); }
    int64_t tasks_of_split() const {
        return problem_.groups * cuts(src_channels_, task_channels_) * geometry_.taps[0].count * cuts(columns_, block_);
    }
    int64_t chunk_lanes() const { return chunks_.rows * std::max<int64_t>(geometry_.sources[2].count, 1); }
    int64_t row_chunks() const { return cuts(geometry_.sources[1].count, chunks_.rows); }

    /// Work items for many cores: a constant number, so that the order of the sums never depends on the threads.
    int64_t split_count() const {
        constexpr int64_t kTasksWanted = 32, kSplitBytes = 64 << 20;
        if (!has_products_) return 0;
        const int64_t affordable = kSplitBytes / static_cast<int64_t>(sizeof(T)) / sums_of_split();
        const int64_t most = std::max<int64_t>(problem_.batch * geometry_.sources[0].count * row_chunks(), 1);
        return std::clamp<int64_t>(std::min(cuts(kTasksWanted, tasks_of_split()), affordable), 1, most);
    }

    Workspace layout(int workers) const {
        const Checked lanes = (Checked(block_) + task_channels_) * lane_pitch_;
        const int64_t taps = problem_.taps();
        return Workspace::of<T>(Checked(splits_) * sums_of_split(),
                                lanes.fits() && lanes.value() < taps ? Checked(taps) : lanes, workers);
    }

    Task task_at(int64_t index) const {
        TaskNumber number(index);
        Task task{};
        task.columns = number.next(columns_, block_);
        task.tap_d = number.next(geometry_.taps[0].count, 1).first;
        task.channels = number.next(src_channels_, task_channels_);
        task.group = number.next(problem_.groups, 1).first;
        task.split = number.rest();
        return task;
    }

    void accumulate(const Task& task, const TensorView& src, const ColumnPacker<T>& packer, T* columns, T* rows,
                    T* partial_sums) const {
        T* sums = partial_sums + task.split * sums_of_split() +
                  (task.group * src_channels_ + task.channels.first) * sums_pitch() + task.tap_d * columns_ +
                  task.columns.first;
        for (int64_t i = 0; i < task.channels.count; ++i)
            std::fill_n(sums + i * sums_pitch(), task.columns.count, T(0));
        const int64_t tap = geometry_.taps[0].first + task.tap_d;
        const IndexRange slices = geometry_.axes[0].sources(tap), all_rows = geometry_.sources[1];
        const int64_t units = problem_.batch * slices.count * row_chunks();
        const int64_t end = split_begin(units, task.split + 1);
        for (int64_t unit = split_begin(units, task.split); unit < end;) {
            int64_t lanes = 0;
            for (int64_t i = 0; i < units_at_once_ && unit < end; ++i, ++unit) {
                const int64_t row = unit % row_chunks() * chunks_.rows;
                const int64_t d = slices.first + unit / row_chunks() % slices.count;
                const IndexRange chunk{all_rows.first + row, std::min(chunks_.rows, all_rows.count - row)};
                const ColumnPlace place{unit / row_chunks() / slices.count, geometry_.axes[0].output(d, tap), chunk};
                packer.pack(place, task.group * dst_channels_, task.columns, lane_pitch_, columns + lanes);
                for (int64_t c = 0; c < task.channels.count; ++c)
                    pack_rows(kernels_, src, geometry_, place.n, task.group * src_channels_ + task.channels.first + c,
                              d, chunk, rows + c * lane_pitch_ + lanes);
                lanes += chunk.count * geometry_.sources[2].count;
            }
            multiply(task, lanes, columns, rows, sums);
        }
    }

    /// The first of `units` things that a split has; in an order of operations that cannot overflow.
    int64_t split_begin(int64_t units, int64_t split) const {
        return units / splits_ * split + units % splits_ * split / splits_;
    }

    void multiply(const Task& task, int64_t lanes, T* columns, T* rows, T* sums) const {
        const int64_t pitch = lane_pitch_, whole = round_up(lanes, kernels_.vector_lanes);
        for (int64_t j = 0; j < task.columns.count; ++j) std::fill_n(columns + j * pitch + lanes, whole - lanes, T(0));
        for (int64_t i = 0; i < task.channels.count; ++i) std::fill_n(rows + i * pitch + lanes, whole - lanes, T(0));
        constexpr size_t kMostColumns = 16;
        std::array<int64_t, kMostColumns> offsets{};
        for (size_t j = 0; j < kMostColumns; ++j) offsets[j] = static_cast<int64_t>(j) * pitch;
        for (int64_t i = 0; i < task.channels.count; i += kernels_.dot_rows) {
            for (int64_t j = 0; j < task.columns.count; j += kernels_.dot_columns) {
                const DotBlock<T> block{rows + i * pitch, pitch, columns + j * pitch,
                                        offsets.data(),   whole, sums + i * sums_pitch() + j,
                                        sums_pitch()};
                kernels_.dot(std::min(kernels_.dot_rows, task.channels.count - i),
                             std::min(kernels_.dot_columns, task.columns.count - j), block);
            }
        }
    }

    /// Adds the partial sums of a src channel in the order of the splits and rounds; taps that reach nothing get zero.
    void store_channel(int64_t channel, const T* partial_sums, T* row, void* grad_weight) const {
        const int64_t taps = problem_.taps();
        for (int64_t out = 0; out < dst_channels_; ++out) {
            std::fill_n(row, taps, T(0));
            for (int64_t split = 0; split < splits_; ++split)
                add_split(partial_sums + split * sums_of_split() + channel * sums_pitch() +
                              out * geometry_.plane_taps(),
                          row);
            kernels_.store(problem_.dtype, row, taps, grad_weight, (channel * dst_channels_ + out) * taps, 1);
        }
    }

    void add_split(const T* sums, T* row) const {
        const int64_t taps_w = geometry_.taps[2].count;
        for (int64_t d = 0; d < geometry_.taps[0].count; ++d) {
            for (int64_t h = 0; h < geometry_.taps[1].count; ++h) {
                const T* from = sums + d * columns_ + h * taps_w;
                T* to = row + geometry_.tap_index(d, h, 0);
                for (int64_t w = 0; w < taps_w; ++w) to[w] += from[w];
            }
        }
    }

    Problem problem_;
    Isa isa_;
    const Kernels<T>& kernels_;
    ColumnGeometry geometry_;
    bool has_products_;
    int64_t src_channels_; ///< of a group
    int64_t dst_channels_;
    RowChunks chunks_;
    int64_t units_at_once_; ///< chunks, of one or several slices and images, whose lanes lie side by side
    int64_t lane_pitch_;
    int64_t columns_; ///< of one tap along d
    int64_t block_;   ///< columns of a task
    int64_t task_channels_;
    int64_t splits_;
};

} // namespace

std::unique_ptr<Kernel> make_columns_bwd_weight(const Problem& problem, Isa isa) {
    if (problem.dtype == DType::f64) return std::make_unique<ColumnsBwdWeight<double>>(problem, isa);
    return std::make_unique<ColumnsBwdWeight<float>>(problem, isa);
}

} // namespace tconv3d::cpu
