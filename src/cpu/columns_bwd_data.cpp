#include "column_geometry.hpp"
#include "columns.hpp"
#include "core/dtype_dispatch.hpp"
#include "output_row.hpp"
#include "workspace.hpp"

namespace tconv3d::cpu {

namespace {

/// Src channels are the rows of the product; (dst channel, tap h, tap w) of one tap along d are summed over.
template <typename T>
class ColumnsBwdData final : public Kernel {
public:
    ColumnsBwdData(const Problem& problem, Isa isa)
        : problem_(problem), isa_(isa), kernels_(cpu::kernels<T>(isa)), geometry_(problem),
          has_products_(geometry_.has_products()),
          d_taps_(problem.kernel[0], problem.stride[0], problem.padding[0], problem.dilation[0]),
          in_channels_(problem.dst_channels_per_group()), out_channels_(problem.src_channels_per_group()),
          chunks_(geometry_, kernels_.vector_lanes), columns_(geometry_.plane_taps() * in_channels_),
          block_(fitting(kSlabElements, chunks_.lane_pitch, std::max<int64_t>(columns_, 1), 1)),
          task_channels_(fitting(kSumElements, chunks_.lane_pitch, out_channels_, kernels_.correlate_channels)),
          task_slices_(slices_of_task(problem.src[0])) {}

    size_t workspace_bytes(int workers) const override { return layout(workers).bytes(); }

    std::string describe() const override {
        return std::string("columns, ") + name(isa_) + ": " + geometry_.describe() + ", " +
               std::to_string(chunks_.rows) + " rows x " + std::to_string(block_) + " columns, " +
               std::to_string(task_channels_) + " output channels, " + std::to_string(task_count()) + " tasks";
    }

    void execute(const Arguments& arguments, Executor& executor, void* workspace) const override {
        const Workspace layout = this->layout(executor.workers());
        T* packed = layout.shared<T>(workspace);
        if (has_products_) pack_weights(arguments.weight, executor, packed);
        const TensorView grad_dst{arguments.grad_dst, problem_.dtype, problem_.layout, problem_.dst_channels,
                                  problem_.dst()};
        const ColumnPacker<T> packer(kernels_, grad_dst, geometry_);
        const Epilogue none;
        const OutputRows<T> output(problem_, none, kernels_, arguments);
        executor.run(task_count(), [&](int64_t index, int worker) {
            const ColumnTask task = task_at(index);
            T* columns = layout.of_worker<T>(workspace, worker);
            T* sums = columns + block_ * chunks_.lane_pitch;
            for (int64_t i = 0; i < task.slices.count; ++i) {
                const int64_t d = task.slices.first + i;
                const bool any = has_products_ && accumulate(task, d, packer, packed, columns, sums);
                store(task, d, output, any, sums, sums + task_channels_ * chunks_.lane_pitch);
            }
        });
    }

private:
    static constexpr int64_t kSlabElements = 512 * 1024 / static_cast<int64_t>(sizeof(T));
    static constexpr int64_t kSumElements = 384 * 1024 / static_cast<int64_t>(sizeof(T));

    Workspace layout(int workers) const {
        const Checked weights = problem_.weight_elements() / problem_.taps() * geometry_.all_taps();
        const Checked lanes = (Checked(block_) + task_channels_) * chunks_.lane_pitch;
        return Workspace::of<T>(weights, lanes + Checked(2) * problem_.src[2], workers);
    }

    int64_t task_count() const {
        return problem_.batch * problem_.groups * cuts(out_channels_, task_channels_) *
               cuts(problem_.src[1], chunks_.rows) * cuts(problem_.src[0], task_slices_);
    }

    ColumnTask task_at(int64_t index) const {
        TaskNumber number(index);
        ColumnTask task{};
        task.slices = number.next(problem_.src[0], task_slices_);
        task.rows = number.next(problem_.src[1], chunks_.rows);
        task.channels = number.next(out_channels_, task_channels_);
        task.group = number.next(problem_.groups, 1).first;
        task.n = number.rest();
        return task;
    }

    /// [group][block of output channels][tap d][column][output channel]
    int64_t weight_offset(int64_t group, int64_t out) const {
        return (group * out_channels_ + out) * geometry_.taps[0].count * columns_;
    }

    void pack_weights(const void* weight, Executor& executor, T* packed) const {
        const int64_t blocks = cuts(out_channels_, kernels_.correlate_channels), taps = problem_.taps();
        const int64_t taps_d = geometry_.taps[0].count;
        executor.run(problem_.groups * blocks * taps_d, [&](int64_t task, int) {
            const int64_t tap_d = task % taps_d, out = task / taps_d % blocks * kernels_.correlate_channels;
            const int64_t group = task / taps_d / blocks;
            const int64_t width = std::min(kernels_.correlate_channels, out_channels_ - out);
            T* to = packed + weight_offset(group, out) + tap_d * columns_ * width;
            with_storage(problem_.dtype, [&](auto* tag) {
                const auto* from = static_cast<decltype(tag)>(const_cast<void*>(weight)) +
                                   (group * out_channels_ + out) * in_channels_ * taps;
                for (int64_t column = 0; column < columns_; ++column) {
                    const int64_t tap = column % geometry_.plane_taps(), taps_w = geometry_.taps[2].count;
                    const int64_t index =
                        column / geometry_.plane_taps() * taps + geometry_.tap_index(tap_d, tap / taps_w, tap % taps_w);
                    for (int64_t i = 0; i < width; ++i)
                        *to++ = static_cast<T>(load(from[i * in_channels_ * taps + index]));
                }
            });
        });
    }

    /// Returns whether there was a product.
    bool accumulate(const ColumnTask& task, int64_t d, const ColumnPacker<T>& packer, const T* packed, T* columns,
                    T* sums) const {
        const TapRange met = d_taps_.at(d, geometry_.axes[0].dst);
        const IndexRange rows = common(task.rows, geometry_.sources[1]);
        if (rows.count == 0) return false;
        bool any = false;
        for (int64_t i = 0; i < met.count; ++i) {
            const ColumnPlace place{task.n, met.in - i * d_taps_.in_back(), rows};
            const int64_t tap_d = met.tap + i - geometry_.taps[0].first;
            for (int64_t first = 0; first < columns_; first += block_) {
                const IndexRange block{first, std::min(block_, columns_ - first)};
                packer.pack(place, task.group * in_channels_, block, chunks_.lane_pitch, columns);
                multiply(task, rows.count, tap_d, block, packed, columns, any, sums);
                any = true;
            }
        }
        return any;
    }

    void multiply(const ColumnTask& task, int64_t rows, int64_t tap_d, const IndexRange& columns, const T* packed,
                  const T* slab, bool accumulate, T* sums) const {
        const int64_t lanes = rows * geometry_.sources[2].count;
        const int64_t step = kernels_.correlate_vectors * kernels_.vector_lanes;
        const ActiveTap whole{0, 0};
        CorrelateBlock<T> block{};
        block.channel_pitch = chunks_.lane_pitch;
        block.channels = columns.count;
        block.taps = &whole;
        block.tap_count = 1;
        block.sums_pitch = chunks_.lane_pitch;
        block.accumulate = accumulate;
        for (int64_t out = 0; out < task.channels.count; out += kernels_.correlate_channels) {
            const int64_t width = std::min(kernels_.correlate_channels, task.channels.count - out);
            block.weights = packed + weight_offset(task.group, task.channels.first + out) +
                            (tap_d * columns_ + columns.first) * width;
            for (int64_t lane = 0; lane < lanes; lane += step) {
                block.slab = slab + lane;
                block.sums = sums + out * chunks_.lane_pitch + lane;
                kernels_.correlate(width, cuts(std::min(step, lanes - lane), kernels_.vector_lanes), block);
            }
        }
    }

    /// Src voxels that meet nothing have a gradient of zero.
    void store(const ColumnTask& task, int64_t d, const OutputRows<T>& output, bool any, const T* sums, T* row) const {
        const IndexRange rows = common(task.rows, geometry_.sources[1]), columns = geometry_.sources[2];
        for (int64_t c = 0; c < task.channels.count; ++c) {
            for (int64_t h = task.rows.first; h < task.rows.first + task.rows.count; ++h) {
                std::fill_n(row, problem_.src[2], T(0));
                if (any && h >= rows.first && h < rows.first + rows.count)
                    std::copy_n(sums + c * chunks_.lane_pitch + (h - rows.first) * columns.count, columns.count,
                                row + columns.first);
                output.store(task.n, task.group * out_channels_ + task.channels.first + c, d, h, row);
            }
        }
    }

    Problem problem_;
    Isa isa_;
    const Kernels<T>& kernels_;
    ColumnGeometry geometry_;
    bool has_products_;
    cuda::BwdDataTaps d_taps_;
    int64_t in_channels_;  ///< of a group: dst's
    int64_t out_channels_; ///< of a group: src's
    RowChunks chunks_;
    int64_t columns_; ///< of one tap along d
    int64_t block_;   ///< columns that are packed at once
    int64_t task_channels_;
    int64_t task_slices_;
};

} // namespace

std::unique_ptr<Kernel> make_columns_bwd_data(const Problem& problem, Isa isa) {
    if (problem.dtype == DType::f64) return std::make_unique<ColumnsBwdData<double>>(problem, isa);
    return std::make_unique<ColumnsBwdData<float>>(problem, isa);
}

} // namespace tconv3d::cpu
