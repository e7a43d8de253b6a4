#include "correlate.hpp"

#include <algorithm>

#include "kernels.hpp"
#include "output_row.hpp"
#include "pack_weights.hpp"
#include "slab.hpp"
#include "tile.hpp"
#include "workspace.hpp"

namespace tconv3d::cpu {

namespace {

template <typename T>
TileLimits correlate_limits(const Kernels<T>& kernels) {
    const int64_t element = static_cast<int64_t>(sizeof(T));
    // The slab and the sums share a second-level cache of 1 MiB with the weights that stream through it.
    return {512 * 1024 / element, 384 * 1024 / element, kernels.correlate_channels,
            2 * kernels.correlate_vectors * kernels.vector_lanes, 32};
}

WeightView weight_view(const Problem& problem, const void* data) {
    const int64_t ci = problem.src_channels_per_group(), co = problem.dst_channels_per_group(), taps = problem.taps();
    if (problem.direction == Direction::fwd) {
        return {data, problem.dtype, problem.groups, ci, co, taps, co * taps, taps};
    }
    return {data, problem.dtype, problem.groups, co, ci, taps, taps, co * taps};
}

/// One work item: a tile of one image, one group, some output channels and some phases.
struct Task {
    int64_t n;
    int64_t group;
    int64_t out_first; ///< in the group
    int64_t out_count;
    int64_t row_phase_first; ///< pair (rd, rh)
    int64_t row_phase_count;
    int64_t q_d;
    int64_t q_h;
};

template <typename T>
class Correlate final : public Kernel {
public:
    Correlate(const Problem& problem, const Epilogue& epilogue, Isa isa)
        : problem_(problem), epilogue_(epilogue), isa_(isa), kernels_(cpu::kernels<T>(isa)), map_(problem),
          in_channels_(weight_view(problem, nullptr).in_channels),
          out_channels_(weight_view(problem, nullptr).out_channels),
          tile_(choose_tile(map_, {in_channels_, out_channels_, problem.batch * problem.groups},
                            correlate_limits(kernels_))),
          phases_(slab_phases(map_, tile_)), w_phases_(static_cast<int64_t>(map_.axes[2].phases.size())),
          sums_pitch_(tile_.lanes + kernels_.correlate_vectors * kernels_.vector_lanes) {}

    size_t workspace_bytes(int workers) const override { return layout(workers).bytes(); }

    std::string describe() const override {
        return std::string("flattened planes, ") + name(isa_) + ": " + tile_.str() + ", " +
               std::to_string(task_count()) + " tasks";
    }

    void execute(const Arguments& arguments, Executor& executor, void* workspace) const override {
        const Workspace layout = this->layout(executor.workers());
        const PackedWeights weights = packed_weights(arguments.weight);
        T* packed = layout.shared<T>(workspace);
        weights.pack(phases_, executor, packed);
        const OutputRows<T> output(problem_, epilogue_, kernels_, arguments);
        executor.run(task_count(), [&](int64_t index, int worker) {
            T* slab = layout.of_worker<T>(workspace, worker);
            T* sums = slab + tile_.in_channels * tile_.channel_pitch;
            const Task task = task_at(index);
            accumulate(task, arguments, weights, packed, slab, sums);
            store(task, output, sums, sums + sums_elements());
        });
    }

private:
    int64_t row_phase_count() const {
        return static_cast<int64_t>(map_.axes[0].phases.size() * map_.axes[1].phases.size());
    }
    int64_t sums_elements() const { return tile_.row_phases * w_phases_ * tile_.out_channels * sums_pitch_; }

    Workspace layout(int workers) const {
        const int64_t worker_elements =
            tile_.in_channels * tile_.channel_pitch + sums_elements() + OutputRows<T>::scratch_elements(map_);
        return Workspace::of<T>(packed_weights(nullptr).elements(), worker_elements, workers);
    }

    PackedWeights packed_weights(const void* data) const {
        return PackedWeights(weight_view(problem_, data), tile_.in_channels, kernels_.correlate_channels);
    }

    int64_t d_tiles() const { return cuts(map_.axes[0].q_count(), tile_.d); }
    int64_t h_tiles() const { return cuts(map_.axes[1].q_count(), tile_.h); }
    int64_t out_tiles() const { return cuts(out_channels_, tile_.out_channels); }
    int64_t phase_tiles() const { return cuts(row_phase_count(), tile_.row_phases); }

    int64_t task_count() const {
        return problem_.batch * problem_.groups * out_tiles() * phase_tiles() * d_tiles() * h_tiles();
    }

    Task task_at(int64_t index) const {
        const auto next = [&index](int64_t count) {
            const int64_t digit = index % count;
            index /= count;
            return digit;
        };
        Task task{};
        task.row_phase_first = next(phase_tiles()) * tile_.row_phases;
        task.row_phase_count = std::min(tile_.row_phases, row_phase_count() - task.row_phase_first);
        task.q_h = next(h_tiles()) * tile_.h;
        task.q_d = next(d_tiles()) * tile_.d;
        task.out_first = next(out_tiles()) * tile_.out_channels;
        task.out_count = std::min(tile_.out_channels, out_channels_ - task.out_first);
        task.group = next(problem_.groups);
        task.n = index;
        return task;
    }

    TensorView input(const Arguments& arguments) const {
        if (problem_.direction == Direction::fwd) {
            return {arguments.src, problem_.dtype, problem_.layout, problem_.src_channels, problem_.src};
        }
        return {arguments.grad_dst, problem_.dtype, problem_.layout, problem_.dst_channels, problem_.dst()};
    }

    /// How many outputs of the phase the task has along each dimension: none where the phase ends before the task.
    Extents held_of(const SlabPhase& phase, const Task& task) const {
        return {std::clamp<int64_t>(phase.axes[0]->count - task.q_d, 0, tile_.d),
                std::clamp<int64_t>(phase.axes[1]->count - task.q_h, 0, tile_.h), phase.axes[2]->count};
    }

    /// Of the output in slice d, row h and column w of the task.
    int64_t lane_of(int64_t d, int64_t h, int64_t w) const { return (d * tile_.slice_pitch + h) * tile_.row_pitch + w; }

    const SlabPhase& phase_of(const Task& task, int64_t i) const {
        return phases_[static_cast<size_t>(task.row_phase_first * w_phases_ + i)];
    }

    T* sums_of(T* sums, int64_t phase, int64_t channel) const {
        return sums + (phase * tile_.out_channels + channel) * sums_pitch_;
    }

    void accumulate(const Task& task, const Arguments& arguments, const PackedWeights& weights, const T* packed,
                    T* slab, T* sums) const {
        const TensorView tensor = input(arguments);
        for (int64_t in = 0; in < in_channels_; in += tile_.in_channels) {
            const int64_t channels = weights.in_width(in);
            pack_slab(kernels_, tensor, map_, tile_,
                      {task.n, task.group * in_channels_ + in, channels, task.q_d, task.q_h}, slab);
            for (int64_t i = 0; i < task.row_phase_count * w_phases_; ++i) {
                accumulate_phase(task, i, weights, packed, in, slab, sums);
            }
        }
    }

    void accumulate_phase(const Task& task, int64_t i, const PackedWeights& weights, const T* packed, int64_t in,
                          const T* slab, T* sums) const {
        const SlabPhase& phase = phase_of(task, i);
        const auto [slices, rows, columns] = held_of(phase, task);
        if (slices == 0 || rows == 0 || columns == 0) return;
        const int64_t end = lane_of(slices - 1, rows - 1, columns - 1) + 1;
        const int64_t step = kernels_.correlate_vectors * kernels_.vector_lanes;
        std::vector<ActiveTap> active(phase.taps.size());
        for (int64_t lane = 0; lane < end; lane += step) {
            const int64_t last = std::min(lane + step, end) - 1;
            CorrelateBlock<T> block{};
            block.slab = slab + lane;
            block.channel_pitch = tile_.channel_pitch;
            block.channels = weights.in_width(in);
            block.taps = active.data();
            block.tap_count = select_taps(phase, task, lane, last, active.data());
            block.sums_pitch = sums_pitch_;
            block.accumulate = in > 0;
            const int64_t vectors = cuts(last - lane + 1, kernels_.vector_lanes);
            for (int64_t out = 0; out < task.out_count; out += kernels_.correlate_channels) {
                block.weights = packed + weights.offset(task.group, task.out_first + out, in, phase.first_tap);
                block.sums = sums_of(sums, i, out) + lane;
                kernels_.correlate(weights.out_width(task.out_first + out), vectors, block);
            }
        }
    }

    /// The taps that read something but zeros for some lane from first to last. Returns their number.
    int64_t select_taps(const SlabPhase& phase, const Task& task, int64_t first, int64_t last,
                        ActiveTap* active) const {
        const int64_t first_row = first / tile_.row_pitch, last_row = last / tile_.row_pitch;
        const int64_t first_slice = first_row / tile_.slice_pitch, last_slice = last_row / tile_.slice_pitch;
        const bool one_slice = first_slice == last_slice;
        const int64_t h_first = task.q_h + (one_slice ? first_row - first_slice * tile_.slice_pitch : 0);
        const int64_t h_last = task.q_h + (one_slice ? last_row - last_slice * tile_.slice_pitch : tile_.h - 1);
        int64_t count = 0, index = 0;
        for (const SlabTap& tap : phase.taps) {
            const bool reads = task.q_d + last_slice >= tap.q_begin[0] && task.q_d + first_slice < tap.q_end[0] &&
                               h_last >= tap.q_begin[1] && h_first < tap.q_end[1];
            active[count] = {index++, tap.offset};
            count += reads ? 1 : 0;
        }
        return count;
    }

    /// Writes every output row of the task: the W phases of a row are interleaved on the way.
    void store(const Task& task, const OutputRows<T>& output, T* sums, T* scratch) const {
        for (int64_t pair = 0; pair < task.row_phase_count; ++pair) {
            const SlabPhase& phase = phase_of(task, pair * w_phases_);
            const Extents held = held_of(phase, task);
            for (int64_t d = 0; d < held[0]; ++d) {
                for (int64_t h = 0; h < held[1]; ++h) store_row(task, output, pair, phase, d, h, sums, scratch);
            }
        }
    }

    void store_row(const Task& task, const OutputRows<T>& output, int64_t pair, const SlabPhase& phase, int64_t d,
                   int64_t h, T* sums, T* scratch) const {
        const auto& [axis_d, axis_h, axis_w] = map_.axes;
        for (int64_t out = 0; out < task.out_count; ++out) {
            // Where the stride is larger than the row, only the first phases have outputs.
            for (int64_t r = 0; r < std::min(w_phases_, axis_w.out_extent); ++r) {
                const AxisPhase& w = axis_w.phases[static_cast<size_t>(r)];
                const T* from = sums_of(sums, pair * w_phases_ + r, out) + lane_of(d, h, 0);
                kernels_.spread(from, w.count, scratch + axis_w.output(r, 0), axis_w.out_stride);
            }
            output.store(task.n, task.group * out_channels_ + task.out_first + out,
                         axis_d.output(phase.r[0], task.q_d + d), axis_h.output(phase.r[1], task.q_h + h), scratch);
        }
    }

    Problem problem_;
    Epilogue epilogue_;
    Isa isa_;
    const Kernels<T>& kernels_;
    IndexMap map_;
    int64_t in_channels_; ///< of a group
    int64_t out_channels_;
    Tile tile_;
    std::vector<SlabPhase> phases_;
    int64_t w_phases_;
    int64_t sums_pitch_;
};

} // namespace

std::unique_ptr<Kernel> make_correlate(const Problem& problem, const Epilogue& epilogue, Isa isa) {
    if (problem.dtype == DType::f64) return std::make_unique<Correlate<double>>(problem, epilogue, isa);
    return std::make_unique<Correlate<float>>(problem, epilogue, isa);
}

} // namespace tconv3d::cpu
