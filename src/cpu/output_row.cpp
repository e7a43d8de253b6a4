#include "output_row.hpp"

namespace tconv3d::cpu {

namespace {

TensorView output_view(const Problem& problem) {
    const bool fwd = problem.direction == Direction::fwd;
    return {nullptr, problem.dtype, problem.layout, fwd ? problem.dst_channels : problem.src_channels,
            fwd ? problem.dst() : problem.src};
}

} // namespace

template <typename T>
OutputRows<T>::OutputRows(const Problem& problem, const Epilogue& epilogue, const Kernels<T>& kernels,
                          const Arguments& arguments)
    : epilogue_(epilogue), kernels_(kernels), arguments_(arguments), tensor_(output_view(problem)),
      data_(problem.direction == Direction::fwd ? arguments.dst : arguments.grad_src),
      bias_(problem.direction == Direction::fwd ? arguments.bias : nullptr),
      preactivation_(problem.direction == Direction::fwd ? arguments.preactivation : nullptr) {}

template <typename T>
T OutputRows<T>::channel_value(const void* data, int64_t channel) const {
    T value;
    kernels_.load(tensor_.dtype, data, channel, 1, 1, &value);
    return value;
}

template <typename T>
void OutputRows<T>::store(int64_t n, int64_t channel, int64_t d, int64_t h, T* scratch) const {
    const int64_t offset = tensor_.row_offset(n, channel, d, h), stride = tensor_.column_stride();
    const int64_t count = tensor_.extents[2];
    if (bias_) kernels_.add(scratch, count, channel_value(bias_, channel));
    if (preactivation_) kernels_.store(tensor_.dtype, scratch, count, preactivation_, offset, stride);
    if (!epilogue_.empty()) apply_epilogue(channel, offset, scratch);
    kernels_.store(tensor_.dtype, scratch, count, data_, offset, stride);
}

template <typename T>
void OutputRows<T>::apply_epilogue(int64_t channel, int64_t offset, T* scratch) const {
    const int64_t count = tensor_.extents[2];
    T* operand_row = scratch + count;
    for (const Step& step : epilogue_.steps()) {
        EpilogueRow<T> row{scratch, count, T(0), nullptr};
        if (takes_channel(step.kind)) {
            row.channel_value = channel_value(arguments_.operands[static_cast<size_t>(step.operand)], channel);
        } else if (takes_residual(step.kind)) {
            kernels_.load(tensor_.dtype, arguments_.operands[static_cast<size_t>(step.operand)], offset,
                          tensor_.column_stride(), count, operand_row);
            row.residual = operand_row;
        }
        kernels_.apply(step, row);
    }
}

template class OutputRows<float>;
template class OutputRows<double>;

} // namespace tconv3d::cpu
