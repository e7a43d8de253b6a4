#include "reduce.hpp"

#include <algorithm>

#include "bias_gradient.hpp"
#include "kernels.hpp"
#include "slab.hpp"
#include "tile.hpp"
#include "workspace.hpp"

namespace tconv3d::cpu {

namespace {

/// Work items for many cores: a constant, so that the order of the sums never depends on the number of threads.
constexpr int64_t kTasksWanted = 32;
constexpr int64_t kSplitBytes = 64 << 20;

template <typename T>
TileLimits reduce_limits(const Kernels<T>& kernels) {
    const int64_t element = static_cast<int64_t>(sizeof(T));
    // Long runs, because each one ends in sums across lanes; both operands stay in a second-level cache of 1 MiB.
    return {768 * 1024 / element, 384 * 1024 / element, 2 * kernels.dot_rows, 48 * kernels.vector_lanes, kTasksWanted};
}

/// One work item: some channels of src and of dst of a group, over a range of the tiles of voxels.
struct Task {
    int64_t split;
    int64_t group;
    int64_t src_first; ///< in the group
    int64_t src_count;
    int64_t dst_first;
    int64_t dst_count;
};

template <typename T>
class Reduce final : public Kernel {
public:
    Reduce(const Problem& problem, Isa isa)
        : problem_(problem), isa_(isa), kernels_(cpu::kernels<T>(isa)), map_(problem),
          src_channels_(problem.src_channels_per_group()), dst_channels_(problem.dst_channels_per_group()),
          tile_(choose_tile(map_, {dst_channels_, src_channels_, problem.batch * problem.groups},
                            reduce_limits(kernels_))),
          lanes_(cuts(tile_.lanes, kernels_.vector_lanes) * kernels_.vector_lanes), splits_(split_count()),
          offsets_(column_offsets()) {}

    size_t workspace_bytes(int workers) const override { return layout(workers).bytes(); }

    std::string describe() const override {
        return std::string("flattened planes, ") + name(isa_) + ": " + tile_.str() + ", " + std::to_string(splits_) +
               " partial sums";
    }

    void execute(const Arguments& arguments, Executor& executor, void* workspace) const override {
        const Workspace layout = this->layout(executor.workers());
        T* partial_sums = layout.shared<T>(workspace);
        executor.run(splits_ * channel_tasks(), [&](int64_t index, int worker) {
            T* slab = layout.of_worker<T>(workspace, worker);
            accumulate(task_at(index), arguments, slab, slab + tile_.in_channels * tile_.channel_pitch, partial_sums);
        });
        add_splits(partial_sums, arguments.grad_weight, executor);
        if (arguments.grad_bias) {
            const TensorView grad_dst = grad_dst_view(arguments);
            bias_gradient(kernels_, grad_dst, problem_.batch, arguments.grad_bias, executor);
        }
    }

private:
    int64_t columns() const { return dst_channels_ * problem_.taps(); }
    int64_t src_tiles() const { return cuts(src_channels_, tile_.out_channels); }
    int64_t dst_tiles() const { return cuts(dst_channels_, tile_.in_channels); }
    int64_t channel_tasks() const { return problem_.groups * src_tiles() * dst_tiles(); }
    int64_t d_tiles() const { return cuts(map_.axes[0].q_count(), tile_.d); }
    int64_t h_tiles() const { return cuts(map_.axes[1].q_count(), tile_.h); }
    int64_t voxel_tiles() const { return problem_.batch * d_tiles() * h_tiles(); }

    int64_t split_count() const {
        const int64_t wanted = cuts(kTasksWanted, channel_tasks());
        const int64_t affordable = kSplitBytes / static_cast<int64_t>(sizeof(T)) / problem_.weight_elements();
        return std::clamp<int64_t>(std::min(wanted, affordable), 1, std::max<int64_t>(1, voxel_tiles()));
    }

    /// Column j of the sums is (dst channel, tap) as in the weight; its operand is the channel's plane, moved by the
    /// tap.
    std::vector<int64_t> column_offsets() const {
        const std::vector<SlabPhase> phases = slab_phases(map_, tile_);
        std::vector<int64_t> offsets;
        for (int64_t channel = 0; channel < tile_.in_channels; ++channel) {
            for (const SlabTap& tap : phases[0].taps) offsets.push_back(channel * tile_.channel_pitch + tap.offset);
        }
        return offsets;
    }

    Workspace layout(int workers) const {
        const int64_t worker_elements = tile_.in_channels * tile_.channel_pitch + tile_.out_channels * lanes_;
        return Workspace::of<T>(splits_ * problem_.weight_elements(), worker_elements, workers);
    }

    Task task_at(int64_t index) const {
        Task task{};
        task.src_first = index % src_tiles() * tile_.out_channels;
        task.src_count = std::min(tile_.out_channels, src_channels_ - task.src_first);
        index /= src_tiles();
        task.dst_first = index % dst_tiles() * tile_.in_channels;
        task.dst_count = std::min(tile_.in_channels, dst_channels_ - task.dst_first);
        index /= dst_tiles();
        task.group = index % problem_.groups;
        task.split = index / problem_.groups;
        return task;
    }

    TensorView src_view(const Arguments& arguments) const {
        return {arguments.src, problem_.dtype, problem_.layout, problem_.src_channels, problem_.src};
    }
    TensorView grad_dst_view(const Arguments& arguments) const {
        return {arguments.grad_dst, problem_.dtype, problem_.layout, problem_.dst_channels, problem_.dst()};
    }

    void accumulate(const Task& task, const Arguments& arguments, T* slab, T* rows, T* partial_sums) const {
        T* sums = partial_sums + task.split * problem_.weight_elements() +
                  (task.group * src_channels_ + task.src_first) * columns() + task.dst_first * problem_.taps();
        const int64_t width = task.dst_count * problem_.taps();
        for (int64_t i = 0; i < task.src_count; ++i) std::fill_n(sums + i * columns(), width, T(0));
        const TensorView src = src_view(arguments), grad_dst = grad_dst_view(arguments);
        const int64_t begin = voxel_tiles() * task.split / splits_, end = voxel_tiles() * (task.split + 1) / splits_;
        for (int64_t voxel_tile = begin; voxel_tile < end; ++voxel_tile) {
            SlabPlace place{voxel_tile / (d_tiles() * h_tiles()), task.group * dst_channels_ + task.dst_first,
                            task.dst_count, voxel_tile / h_tiles() % d_tiles() * tile_.d,
                            voxel_tile % h_tiles() * tile_.h};
            pack_slab(kernels_, grad_dst, map_, tile_, place, slab);
            place.first_channel = task.group * src_channels_ + task.src_first;
            place.channels = task.src_count;
            pack_rows(src, place, rows);
            multiply(task, slab, rows, sums);
        }
    }

    /// The tile's voxels of src in the same lanes as the slab's, and zeros in the lanes between rows.
    void pack_rows(const TensorView& src, const SlabPlace& place, T* rows) const {
        const int64_t d_end = std::min(place.q_d + tile_.d, problem_.src[0]);
        SlabRows block{};
        block.column_stride = src.column_stride();
        block.row_stride = problem_.src[2] * block.column_stride;
        block.rows = std::min(tile_.h, problem_.src[1] - place.q_h);
        block.columns = problem_.src[2];
        block.row_pitch = tile_.row_pitch;
        std::fill_n(rows, place.channels * lanes_, T(0));
        for (int64_t c = 0; c < place.channels; ++c) {
            for (int64_t d = place.q_d; d < d_end; ++d) {
                T* slice = rows + c * lanes_ + (d - place.q_d) * tile_.slice_pitch * tile_.row_pitch;
                block.offset = src.row_offset(place.n, place.first_channel + c, d, place.q_h);
                kernels_.load_rows(src.dtype, src.data, block, slice);
            }
        }
    }

    void multiply(const Task& task, const T* slab, const T* rows, T* sums) const {
        const int64_t width = task.dst_count * problem_.taps();
        for (int64_t i = 0; i < task.src_count; i += kernels_.dot_rows) {
            for (int64_t j = 0; j < width; j += kernels_.dot_columns) {
                const DotBlock<T> block{rows + i * lanes_,        lanes_,   slab, offsets_.data() + j, lanes_,
                                        sums + i * columns() + j, columns()};
                kernels_.dot(std::min(kernels_.dot_rows, task.src_count - i), std::min(kernels_.dot_columns, width - j),
                             block);
            }
        }
    }

    /// The second pass: adds the partial sums in the order of the splits and rounds.
    void add_splits(T* partial_sums, void* grad_weight, Executor& executor) const {
        executor.run(problem_.src_channels, [&](int64_t channel, int) {
            T* total = partial_sums + channel * columns();
            for (int64_t split = 1; split < splits_; ++split) {
                const T* summand = total + split * problem_.weight_elements();
                for (int64_t i = 0; i < columns(); ++i) total[i] += summand[i];
            }
            kernels_.store(problem_.dtype, total, columns(), grad_weight, channel * columns(), 1);
        });
    }

    Problem problem_;
    Isa isa_;
    const Kernels<T>& kernels_;
    IndexMap map_;
    int64_t src_channels_; ///< of a group
    int64_t dst_channels_;
    Tile tile_;     ///< its input channels are dst's, its output channels src's
    int64_t lanes_; ///< of the tile, in whole vectors
    int64_t splits_;
    std::vector<int64_t> offsets_;
};

} // namespace

std::unique_ptr<Kernel> make_reduce(const Problem& problem, Isa isa) {
    if (problem.dtype == DType::f64) return std::make_unique<Reduce<double>>(problem, isa);
    return std::make_unique<Reduce<float>>(problem, isa);
}

} // namespace tconv3d::cpu
