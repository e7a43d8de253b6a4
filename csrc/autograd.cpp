#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "chain.hpp"
#include "convert.hpp"
#include "cuda_plans.hpp"
#include "tensors.hpp"

/// Gradients of every order: the three convolution ops are the derivatives of one another.
namespace tconv3d::ops {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Whether PyTorch must record the call. A forward-mode tangent counts: its node raises that it has no jvp, where
/// skipping it would silently drop the tangent.
bool is_tracked(const at::Tensor& tensor) {
    return tensor.defined() &&
           ((at::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(/*level=*/0).defined());
}

bool is_any_tracked(at::TensorList tensors) {
    return std::any_of(tensors.begin(), tensors.end(), is_tracked);
}

Epilogue parse(const std::string& text) {
    return text.empty() ? Epilogue() : Epilogue::parse(text);
}

/// With one channel both formats are the same bytes, and contiguous() would leave the strides as they are.
/// This view has the strides that say channels_last_3d, so that grad_src gets that format too.
at::Tensor in_format(const at::Tensor& grad, bool channels_last) {
    if (!channels_last) return grad.contiguous();
    const at::Tensor dense = grad.contiguous(at::MemoryFormat::ChannelsLast3d);
    return dense.sym_size(1) == 1 ? dense.squeeze(1).unsqueeze(-1).permute({0, 4, 1, 2, 3}) : dense;
}

/// What Fwd keeps for backward, in the order in which it is saved.
struct Kept {
    at::Tensor src; ///< undefined where no gradient needs it
    at::Tensor weight;
    at::Tensor bias;  ///< undefined unless there is one and the epilogue's double backward may need it
    at::Tensor saved; ///< dst or preactivation, as the epilogue asks
    variable_list operands;

    explicit Kept(const variable_list& list)
        : src(list[0]), weight(list[1]), bias(list[2]), saved(list[3]), operands(list.begin() + 4, list.end()) {}
};

/// Residuals in the size of dst, to which they broadcast.
variable_list in_size_of(const at::Tensor& dst, const variable_list& operands) {
    variable_list expanded;
    for (const at::Tensor& operand : operands)
        expanded.push_back(operand.dim() == 1 ? operand : operand.expand_symint(dst.sym_sizes()));
    return expanded;
}

/// `operands` are those that were kept, in the size of grad_dst. The gradient of the bias is undefined where it is left
/// to later.
EpilogueBwdResults grad_through_epilogue(const at::Tensor& grad_dst, const Kept& kept, const variable_list& operands,
                                         const Geometry& geometry, const std::string& text, bool needs_bias) {
    if (!at::GradMode::is_enabled()) {
        // An op's tensor must be defined to be traced.
        const at::Tensor saved = kept.saved.defined() ? kept.saved : grad_dst.new_empty({0});
        const bool with_bias = needs_bias && grad_dst.is_cuda() && takes_gradients();
        auto [grad, grad_operands, grad_bias] = epilogue_bwd(grad_dst, saved, text, operands, with_bias);
        return {grad, grad_operands, with_bias ? grad_bias : at::Tensor()};
    }
    // The backward of a backward needs the preactivation with its history.
    const OptionalTensor bias = kept.bias.defined() ? OptionalTensor(kept.bias) : OptionalTensor();
    const at::Tensor preactivation = fwd(kept.src, kept.weight, bias, geometry, "", {});
    auto [grad, grad_operands] = differentiable_epilogue_bwd(grad_dst, preactivation, parse(text), operands);
    return {grad, grad_operands, at::Tensor()};
}

class Fwd : public torch::autograd::Function<Fwd> {
public:
    static constexpr bool is_traceable = true;

    static at::Tensor forward(AutogradContext* ctx, const at::Tensor& src, const at::Tensor& weight,
                              const OptionalTensor& bias, const Geometry& geometry, const std::string& text,
                              at::TensorList operands) {
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        const Saved saves = parse(text).saved();
        at::Tensor dst;
        at::Tensor saved;
        if (saves == Saved::preactivation)
            std::tie(dst, saved) = fwd_saved(src, weight, bias, geometry, text, operands);
        else
            dst = fwd(src, weight, bias, geometry, text, operands);
        if (saves == Saved::output) saved = dst;

        const bool has_bias = bias.has_value() && bias->defined();
        ctx->saved_data["geometry"] = geometry.packed();
        ctx->saved_data["epilogue"] = text;
        ctx->saved_data["has_bias"] = has_bias;
        ctx->saved_data["channels_last"] = common_format(src, weight) == at::MemoryFormat::ChannelsLast3d;
        const bool keeps_src = weight.requires_grad() || !text.empty();
        variable_list kept = {keeps_src ? src : at::Tensor(), weight, has_bias && !text.empty() ? *bias : at::Tensor(),
                              saved};
        kept.insert(kept.end(), operands.begin(), operands.end());
        ctx->save_for_backward(std::move(kept));
        return dst;
    }

    static variable_list backward(AutogradContext* ctx, variable_list grads) {
        const Kept kept(ctx->get_saved_variables());
        const Geometry geometry = Geometry::unpacked(ctx->saved_data["geometry"].toIntVector());
        const std::string text = ctx->saved_data["epilogue"].toStringRef();
        const bool has_bias = ctx->saved_data["has_bias"].toBool();
        const bool channels_last = ctx->saved_data["channels_last"].toBool();
        // The layout of all gradients follows the call's, whatever layout the incoming one has.
        at::Tensor grad = in_format(grads[0], channels_last);
        at::Tensor grad_src, grad_weight, grad_bias;
        const bool needs_bias = has_bias && ctx->needs_input_grad(2);
        variable_list grad_operands;
        if (!text.empty()) {
            const variable_list operands = in_size_of(grad, kept.operands);
            std::tie(grad, grad_operands, grad_bias) =
                grad_through_epilogue(grad, kept, operands, geometry, text, needs_bias);
            for (size_t i = 0; i < grad_operands.size(); ++i)
                grad_operands[i] = grad_operands[i].sum_to_size_symint(kept.operands[i].sym_sizes());
        }

        const bool lacks_bias = needs_bias && !grad_bias.defined();
        if (ctx->needs_input_grad(0)) grad_src = bwd_data(grad, kept.weight, geometry);
        if (ctx->needs_input_grad(1)) {
            const auto gradients = bwd_weight(kept.src, grad, kept.weight.sym_sizes().slice(2), geometry, lacks_bias);
            grad_weight = std::get<0>(gradients);
            if (lacks_bias) grad_bias = std::get<1>(gradients);
        } else if (lacks_bias) {
            grad_bias = sum_of_channels(grad);
        }

        variable_list result = {grad_src, grad_weight, grad_bias, at::Tensor(), at::Tensor()};
        result.insert(result.end(), grad_operands.begin(), grad_operands.end());
        return result;
    }
};

/// bwd_data is linear in grad_dst and in weight.
class BwdData : public torch::autograd::Function<BwdData> {
public:
    static constexpr bool is_traceable = true;

    static at::Tensor forward(AutogradContext* ctx, const at::Tensor& grad_dst, const at::Tensor& weight,
                              const Geometry& geometry) {
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        ctx->saved_data["geometry"] = geometry.packed();
        ctx->save_for_backward({weight.requires_grad() ? grad_dst : at::Tensor(), weight});
        return bwd_data(grad_dst, weight, geometry);
    }

    static variable_list backward(AutogradContext* ctx, variable_list grads) {
        const variable_list kept = ctx->get_saved_variables();
        const at::Tensor& grad_dst = kept[0];
        const at::Tensor& weight = kept[1];
        const Geometry geometry = Geometry::unpacked(ctx->saved_data["geometry"].toIntVector());
        at::Tensor grad_grad_dst, grad_weight;
        if (ctx->needs_input_grad(0)) grad_grad_dst = fwd(grads[0], weight, {}, geometry, "", {});
        if (ctx->needs_input_grad(1))
            grad_weight = std::get<0>(bwd_weight(grads[0], grad_dst, weight.sym_sizes().slice(2), geometry, false));
        return {grad_grad_dst, grad_weight, at::Tensor()};
    }
};

/// bwd_weight is linear in src and in grad_dst.
class BwdWeight : public torch::autograd::Function<BwdWeight> {
public:
    static constexpr bool is_traceable = true;

    static variable_list forward(AutogradContext* ctx, const at::Tensor& src, const at::Tensor& grad_dst,
                                 c10::SymIntArrayRef kernel, const Geometry& geometry, bool with_bias) {
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        ctx->saved_data["geometry"] = geometry.packed();
        ctx->saved_data["with_bias"] = with_bias;
        ctx->set_materialize_grads(false);
        ctx->save_for_backward({src, grad_dst});
        auto [grad_weight, grad_bias] = bwd_weight(src, grad_dst, kernel, geometry, with_bias);
        return {grad_weight, grad_bias};
    }

    static variable_list backward(AutogradContext* ctx, variable_list grads) {
        const variable_list kept = ctx->get_saved_variables();
        const at::Tensor& src = kept[0];
        const at::Tensor& grad_dst = kept[1];
        const Geometry geometry = Geometry::unpacked(ctx->saved_data["geometry"].toIntVector());
        const bool has_weight = grads[0].defined();
        const bool has_bias = grads[1].defined() && ctx->saved_data["with_bias"].toBool();
        at::Tensor grad_src, grad_grad_dst;
        if (ctx->needs_input_grad(0) && has_weight) grad_src = bwd_data(grad_dst, grads[0], geometry);
        // grad_bias sums grad_dst over all but the channels, so its gradient spreads out like a bias.
        if (ctx->needs_input_grad(1) && has_weight)
            grad_grad_dst =
                fwd(src, grads[0], has_bias ? OptionalTensor(grads[1]) : OptionalTensor(), geometry, "", {});
        else if (ctx->needs_input_grad(1) && has_bias)
            grad_grad_dst = grads[1].view({-1, 1, 1, 1}).expand_symint(grad_dst.sym_sizes());
        return {grad_src, grad_grad_dst, at::Tensor(), at::Tensor(), at::Tensor()};
    }
};

at::Tensor fwd_autograd(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                        const Geometry& geometry, Text epilogue, at::TensorList operands) {
    if (is_any_tracked({src, weight, bias.value_or(at::Tensor())}) || is_any_tracked(operands))
        return Fwd::apply(src, weight, bias, geometry, std::string(epilogue.data(), epilogue.size()), operands);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return fwd(src, weight, bias, geometry, epilogue, operands);
}

at::Tensor bwd_data_autograd(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    if (is_any_tracked({grad_dst, weight})) return BwdData::apply(grad_dst, weight, geometry);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return bwd_data(grad_dst, weight, geometry);
}

std::tuple<at::Tensor, at::Tensor> bwd_weight_autograd(const at::Tensor& src, const at::Tensor& grad_dst,
                                                       c10::SymIntArrayRef kernel, const Geometry& geometry,
                                                       bool with_bias) {
    if (is_any_tracked({src, grad_dst})) {
        const variable_list grads = BwdWeight::apply(src, grad_dst, kernel, geometry, with_bias);
        return {grads[0], grads[1]};
    }
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return bwd_weight(src, grad_dst, kernel, geometry, with_bias);
}

} // namespace

TORCH_LIBRARY_IMPL(tconv3d, Autograd, m) {
    impl_fwd<fwd_autograd>(m);
    m.impl("bwd_data", bwd_data_kernel<bwd_data_autograd>);
    m.impl("bwd_weight", bwd_weight_kernel<bwd_weight_autograd, c10::SymIntArrayRef>);
    // The parts that Fwd is made of: differentiating one by itself is an error, not a silent zero.
    for (const char* part : {"fwd_saved", "fwd_saved.operands", "epilogue_bwd", "epilogue_bwd.operands"})
        m.impl(part, torch::autograd::autogradNotImplementedFallback());
}

} // namespace tconv3d::ops
