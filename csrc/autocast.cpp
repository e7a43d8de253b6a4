#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "ops.hpp"

/// Autocast as PyTorch does it for conv_transpose3d: every floating tensor but float64 in the autocast dtype.
/// The backward ops need nothing: they are called with what fwd got after the cast.
namespace tconv3d::ops {

namespace {

template <c10::DispatchKey key, c10::DeviceType device>
at::Tensor fwd_autocast(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                        const Geometry& geometry, Text epilogue, at::TensorList operands) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(key);
    const at::ScalarType dtype = at::autocast::get_lower_precision_fp_from_device_type(device);
    const auto cast = [&](const at::Tensor& tensor) { return at::autocast::cached_cast(dtype, tensor, device); };
    std::vector<at::Tensor> cast_operands;
    for (const at::Tensor& operand : operands) cast_operands.push_back(cast(operand));
    const OptionalTensor cast_bias = bias.has_value() ? OptionalTensor(cast(*bias)) : OptionalTensor();
    return fwd(cast(src), cast(weight), cast_bias, geometry, epilogue, cast_operands);
}

} // namespace

TORCH_LIBRARY_IMPL(tconv3d, Autocast, m) {
    impl_fwd<fwd_autocast<c10::DispatchKey::Autocast, c10::DeviceType::CUDA>>(m);
}

TORCH_LIBRARY_IMPL(tconv3d, AutocastCPU, m) {
    impl_fwd<fwd_autocast<c10::DispatchKey::AutocastCPU, c10::DeviceType::CPU>>(m);
}

} // namespace tconv3d::ops
