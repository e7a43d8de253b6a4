#include "tconv3d/epilogue_bwd.hpp"

#include <algorithm>
#include <type_traits>

#include "argument_checks.hpp"
#include "dtype_dispatch.hpp"
#include "steps.hpp"

namespace tconv3d {

namespace {

/// Elements that go through the chain together: a handful of such arrays stays in the first-level cache.
constexpr int64_t kBlock = 256;
/// Voxels of a task, and of one partial sum of a channel gradient. Fixed, so that no sum depends on the threads.
constexpr int64_t kChunkVoxels = 4096;

/// A run of neighbouring elements. In ncdhw they share `channel`; in ndhwc it is the first one's and then cycles.
struct Block {
    int64_t offset;
    int64_t count;
    int64_t channel;
};

template <typename Storage>
class EpilogueBackward {
public:
    EpilogueBackward(const Problem& problem, const Epilogue& epilogue, const EpilogueGradients& gradients)
        : gradients_(gradients), steps_(epilogue.steps()), saved_(epilogue.saved()), batch_(problem.batch),
          channels_(problem.dst_channels), voxels_(problem.dst_voxels()), planar_(problem.layout == Layout::ncdhw),
          chunks_((voxels_ + kChunkVoxels - 1) / kChunkVoxels), partials_(steps_.size()) {}

    void run(Executor& executor) {
        for (size_t s = 0; s < steps_.size(); ++s)
            if (takes_channel(steps_[s].kind) && operand_gradient(s) != nullptr)
                partials_[s].assign(static_cast<size_t>(batch_ * chunks_ * channels_), 0.0);
        const int64_t planes = planar_ ? batch_ * channels_ : batch_;
        executor.run(planes * chunks_, [&](int64_t task, int) { run_chunk(task / chunks_, task % chunks_); });
        for (size_t s = 0; s < steps_.size(); ++s)
            if (takes_channel(steps_[s].kind) && operand_gradient(s) != nullptr) add_partials(s);
    }

private:
    using T = Compute<Storage>;

    /// The arrays of a block: for every step its input and the values of its tensor.
    struct Scratch {
        explicit Scratch(size_t steps) : inputs(steps * kBlock), operands(steps * kBlock) {}
        std::vector<T> inputs;
        std::vector<T> operands;
    };

    /// A plane is a batch entry and, in ncdhw, a channel.
    void run_chunk(int64_t plane, int64_t chunk) {
        const int64_t width = planar_ ? 1 : channels_;
        const int64_t first = chunk * kChunkVoxels;
        const int64_t count = std::min(kChunkVoxels, voxels_ - first) * width;
        const int64_t offset = (plane * voxels_ + first) * width;
        const int64_t slot = (planar_ ? plane / channels_ : plane) * chunks_ + chunk;
        Scratch scratch(steps_.size());
        for (int64_t done = 0; done < count; done += kBlock) {
            const int64_t channel = planar_ ? plane % channels_ : done % channels_;
            run_block({offset + done, std::min(kBlock, count - done), channel}, slot, scratch);
        }
    }

    void run_block(const Block& block, int64_t slot, Scratch& scratch) {
        T gradient[kBlock];
        load_run(gradients_.grad_dst, block, gradient);
        if (saved_ == Saved::preactivation) recompute(block, scratch);
        for (size_t s = steps_.size(); s-- > 0;) {
            const T* input = &scratch.inputs[s * kBlock];
            if (operand_gradient(s) != nullptr) accumulate_operand(s, block, slot, gradient, input);
            if (saved_ == Saved::output && s + 1 == steps_.size())
                chain_from_output(block, gradient);
            else
                chain(s, block.count, gradient, input, &scratch.operands[s * kBlock]);
        }
        Storage* target = static_cast<Storage*>(gradients_.grad_preactivation) + block.offset;
        for (int64_t i = 0; i < block.count; ++i) store(target[i], gradient[i]);
    }

    /// The input of every step, from the preactivation on.
    void recompute(const Block& block, Scratch& scratch) const {
        T value[kBlock];
        load_run(gradients_.saved, block, value);
        for (size_t s = 0; s < steps_.size(); ++s) {
            T* input = &scratch.inputs[s * kBlock];
            T* operand = &scratch.operands[s * kBlock];
            if (steps_[s].operand >= 0) load_operand(s, block, operand);
            steps::with_step<T>(steps_[s], [&](auto f) {
                for (int64_t i = 0; i < block.count; ++i) {
                    input[i] = value[i];
                    value[i] = f.value(value[i], operand[i]);
                }
            });
        }
    }

    /// Where nothing or the output is saved, the derivative is a constant: then input and operand are not looked at.
    void chain(size_t s, int64_t count, T* gradient, const T* input, const T* operand) const {
        steps::with_step<T>(steps_[s], [&](auto f) {
            for (int64_t i = 0; i < count; ++i)
                gradient[i] = steps::chain_gradient(f, gradient[i], f.derivative(input[i], operand[i]));
        });
    }

    void chain_from_output(const Block& block, T* gradient) const {
        T output[kBlock];
        load_run(gradients_.saved, block, output);
        steps::with_step_of_output<T>(steps_.back(), [&](auto f) {
            for (int64_t i = 0; i < block.count; ++i)
                gradient[i] = steps::chain_gradient(f, gradient[i], f.derivative_from_output(output[i]));
        });
    }

    void accumulate_operand(size_t s, const Block& block, int64_t slot, const T* gradient, const T* input) {
        const StepKind kind = steps_[s].kind;
        const bool multiplies = kind == StepKind::channel_mul || kind == StepKind::residual_mul;
        const auto at = [&](int64_t i) { return multiplies ? gradient[i] * input[i] : gradient[i]; };
        if (takes_residual(kind)) {
            for (int64_t i = 0; i < block.count; ++i) store(operand_gradient(s)[block.offset + i], at(i));
            return;
        }
        double* sums = &partials_[s][static_cast<size_t>(slot * channels_)];
        for_each_channel(block, [&](int64_t i, int64_t channel) { sums[channel] += static_cast<double>(at(i)); });
    }

    void add_partials(size_t s) const {
        for (int64_t channel = 0; channel < channels_; ++channel) {
            double sum = 0;
            for (int64_t slot = 0; slot < batch_ * chunks_; ++slot)
                sum += partials_[s][static_cast<size_t>(slot * channels_ + channel)];
            store(operand_gradient(s)[channel], sum);
        }
    }

    template <typename Body>
    void for_each_channel(const Block& block, const Body& body) const {
        int64_t channel = block.channel;
        for (int64_t i = 0; i < block.count; ++i) {
            body(i, channel);
            if (!planar_ && ++channel == channels_) channel = 0;
        }
    }

    void load_operand(size_t s, const Block& block, T* values) const {
        const void* data = gradients_.operands[static_cast<size_t>(steps_[s].operand)];
        if (takes_residual(steps_[s].kind)) return load_run(data, block, values);
        const Storage* stored = static_cast<const Storage*>(data);
        for_each_channel(block, [&](int64_t i, int64_t channel) { values[i] = load(stored[channel]); });
    }

    static void load_run(const void* data, const Block& block, T* values) {
        const Storage* stored = static_cast<const Storage*>(data) + block.offset;
        for (int64_t i = 0; i < block.count; ++i) values[i] = load(stored[i]);
    }

    /// Null when the step has no tensor, or its gradient is not wanted.
    Storage* operand_gradient(size_t s) const {
        if (steps_[s].operand < 0 || gradients_.grad_operands.empty()) return nullptr;
        return static_cast<Storage*>(gradients_.grad_operands[static_cast<size_t>(steps_[s].operand)]);
    }

    const EpilogueGradients& gradients_;
    const std::vector<Step>& steps_;
    const Saved saved_;
    const int64_t batch_;
    const int64_t channels_;
    const int64_t voxels_;
    const bool planar_;
    const int64_t chunks_;
    std::vector<std::vector<double>> partials_; ///< by step: one sum for each batch entry, chunk and channel
};

} // namespace

void epilogue_bwd(const Problem& problem, const Epilogue& epilogue, const EpilogueGradients& gradients,
                  Executor& executor) {
    require_epilogue_gradients(problem, epilogue, gradients);
    with_storage(problem.dtype, [&](auto* tag) {
        EpilogueBackward<std::remove_pointer_t<decltype(tag)>>(problem, epilogue, gradients).run(executor);
    });
}

} // namespace tconv3d
