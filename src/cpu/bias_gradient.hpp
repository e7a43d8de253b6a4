#pragma once

#include "kernels.hpp"
#include "slab.hpp"
#include "tconv3d/executor.hpp"

namespace tconv3d::cpu {

/// grad_bias[c] = Σ grad_dst[n, c, …], in double: slice by slice, then over the slices in a fixed order.
template <typename T>
void bias_gradient(const Kernels<T>& kernels, const TensorView& grad_dst, int64_t batch, void* grad_bias,
                   Executor& executor);

} // namespace tconv3d::cpu
