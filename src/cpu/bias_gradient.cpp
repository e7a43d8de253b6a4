#include "bias_gradient.hpp"

#include <vector>

namespace tconv3d::cpu {

template <typename T>
void bias_gradient(const Kernels<T>& kernels, const TensorView& grad_dst, int64_t batch, void* grad_bias,
                   Executor& executor) {
    const int64_t channels = grad_dst.channels;
    const int64_t depth = grad_dst.extents[0], height = grad_dst.extents[1], width = grad_dst.extents[2];
    std::vector<double> slice_sums(static_cast<size_t>(batch * depth * channels));
    executor.run(batch * depth, [&](int64_t slice, int) {
        double* sums = slice_sums.data() + slice * channels;
        for (int64_t h = 0; h < height; ++h) {
            for (int64_t c = 0; c < channels; ++c) {
                sums[c] +=
                    kernels.sum(grad_dst.dtype, grad_dst.data, grad_dst.row_offset(slice / depth, c, slice % depth, h),
                                grad_dst.column_stride(), width);
            }
        }
    });
    for (int64_t c = 0; c < channels; ++c) {
        double total = 0;
        for (int64_t slice = 0; slice < batch * depth; ++slice) {
            total += slice_sums[static_cast<size_t>(slice * channels + c)];
        }
        const T value = static_cast<T>(total);
        kernels.store(grad_dst.dtype, &value, 1, grad_bias, c, 1);
    }
}

template void bias_gradient<float>(const Kernels<float>&, const TensorView&, int64_t, void*, Executor&);
template void bias_gradient<double>(const Kernels<double>&, const TensorView&, int64_t, void*, Executor&);

} // namespace tconv3d::cpu
