#include "ops.hpp"
#include "core/lasting.hpp"
#include "text.hpp"

#include <cctype>
#include <map>

#include <ATen/core/dispatch/Dispatcher.h>

namespace tconv3d::ops {

namespace {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name, const char* overload = "") {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

/// Operands: at::TensorList, or nothing in the overload without them.
template <typename Result, typename... Operands>
using Fwd = Result(const at::Tensor&, const at::Tensor&, const OptionalTensor&, at::IntArrayRef, at::IntArrayRef,
                   at::IntArrayRef, int64_t, at::IntArrayRef, Text, Operands...);
using BwdData = at::Tensor(const at::Tensor&, const at::Tensor&, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef,
                           int64_t, at::IntArrayRef);
using BwdWeight = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, c10::SymIntArrayRef,
                                                     at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, int64_t,
                                                     at::IntArrayRef, bool);
using EpilogueBwd = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, Text, bool);
using EpilogueBwdOperands = EpilogueBwdResults(const at::Tensor&, const at::Tensor&, Text, at::TensorList, bool);

/// The overloads of fwd or fwd_saved; the operands decide between them.
template <typename Result>
class FwdOverloads {
public:
    explicit FwdOverloads(const char* name)
        : without_operands_(find<Fwd<Result>>(name)),
          with_operands_(find<Fwd<Result, at::TensorList>>(name, "operands")) {}

    Result call(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias, const Geometry& geometry,
                Text epilogue, at::TensorList operands) const {
        const auto& [stride, padding, output_padding, groups, dilation] = geometry;
        if (operands.empty())
            return without_operands_.call(src, weight, bias, stride, padding, output_padding, groups, dilation,
                                          epilogue);
        return with_operands_.call(src, weight, bias, stride, padding, output_padding, groups, dilation, epilogue,
                                   operands);
    }

private:
    c10::TypedOperatorHandle<Fwd<Result>> without_operands_;
    c10::TypedOperatorHandle<Fwd<Result, at::TensorList>> with_operands_;
};

} // namespace

Geometry::Geometry(at::IntArrayRef stride_, at::IntArrayRef padding_, at::IntArrayRef output_padding_, int64_t groups_,
                   at::IntArrayRef dilation_)
    : stride(extents("stride", stride_)), padding(extents("padding", padding_)),
      output_padding(extents("output_padding", output_padding_)), groups(groups_),
      dilation(extents("dilation", dilation_)) {}

std::vector<int64_t> Geometry::packed() const {
    std::vector<int64_t> values;
    values.reserve(13);
    for (const Extents& part : {stride, padding, output_padding, dilation})
        values.insert(values.end(), part.begin(), part.end());
    values.push_back(groups);
    return values;
}

Geometry Geometry::unpacked(at::IntArrayRef packed) {
    return {packed.slice(0, 3), packed.slice(3, 3), packed.slice(6, 3), packed[12], packed.slice(9, 3)};
}

std::string in_pytorch_words(const std::string& message) {
    static const Lasting<std::map<std::string, std::string>> kWords(std::map<std::string, std::string>{
        {"src", "input"},
        {"src_channels", "input channels"},
        {"dst", "output"},
        {"dst_channels", "output channels"},
        {"grad_src", "grad_input"},
        {"grad_dst", "grad_output"},
    });
    const auto is_letter = [](char c) { return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0; };
    std::string translated;
    for (size_t begin = 0; begin < message.size();) {
        size_t end = begin;
        while (end < message.size() && is_letter(message[end])) ++end;
        if (end == begin) end = begin + 1;
        const std::string word = message.substr(begin, end - begin);
        const auto found = (*kWords).find(word);
        translated += found == (*kWords).end() ? word : found->second;
        begin = end;
    }
    return translated;
}

Extents extents(const char* argument, at::IntArrayRef values) {
    TORCH_CHECK(values.size() == 3,
                text("expected ", argument, " to have 3 values (d, h, w), but got ", argument, "=", values));
    return {values[0], values[1], values[2]};
}

at::Tensor fwd(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias, const Geometry& geometry,
               Text epilogue, at::TensorList operands) {
    static const FwdOverloads<at::Tensor> op("tconv3d::fwd");
    return op.call(src, weight, bias, geometry, epilogue, operands);
}

std::tuple<at::Tensor, at::Tensor> fwd_saved(const at::Tensor& src, const at::Tensor& weight,
                                             const OptionalTensor& bias, const Geometry& geometry, Text epilogue,
                                             at::TensorList operands) {
    static const FwdOverloads<std::tuple<at::Tensor, at::Tensor>> op("tconv3d::fwd_saved");
    return op.call(src, weight, bias, geometry, epilogue, operands);
}

at::Tensor bwd_data(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    static const auto op = find<BwdData>("tconv3d::bwd_data");
    return op.call(grad_dst, weight, geometry.stride, geometry.padding, geometry.output_padding, geometry.groups,
                   geometry.dilation);
}

std::tuple<at::Tensor, at::Tensor> bwd_weight(const at::Tensor& src, const at::Tensor& grad_dst,
                                              c10::SymIntArrayRef kernel, const Geometry& geometry, bool with_bias) {
    static const auto op = find<BwdWeight>("tconv3d::bwd_weight");
    return op.call(src, grad_dst, kernel, geometry.stride, geometry.padding, geometry.output_padding, geometry.groups,
                   geometry.dilation, with_bias);
}

EpilogueBwdResults epilogue_bwd(const at::Tensor& grad_dst, const at::Tensor& saved, Text epilogue,
                                at::TensorList operands, bool with_bias) {
    static const auto op = find<EpilogueBwd>("tconv3d::epilogue_bwd");
    static const auto with_operands = find<EpilogueBwdOperands>("tconv3d::epilogue_bwd", "operands");
    if (!operands.empty()) return with_operands.call(grad_dst, saved, epilogue, operands, with_bias);
    auto [grad_preactivation, grad_bias] = op.call(grad_dst, saved, epilogue, with_bias);
    return {grad_preactivation, {}, grad_bias};
}

} // namespace tconv3d::ops
