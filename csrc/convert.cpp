#include "convert.hpp"
#include "text.hpp"

namespace tconv3d::ops {

namespace {

constexpr int64_t kRank = 5; // n, c, d, h, w

DType dtype(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
    case at::kFloat:
        return DType::f32;
    case at::kDouble:
        return DType::f64;
    case at::kBFloat16:
        return DType::bf16;
    case at::kHalf:
        return DType::f16;
    default:
        TORCH_CHECK_NOT_IMPLEMENTED(false, text("tconv3d is not implemented for ", tensor.scalar_type(),
                                                "; it takes Float, Double, BFloat16 and Half"));
    }
}

void check_rank(const char* name, const at::Tensor& tensor) {
    TORCH_CHECK(tensor.dim() == kRank,
                text("expected a 5-D ", name, ", but got ", name, " with ", tensor.dim(), " dimensions"));
}

void check_same_kind(const char* name, const at::Tensor& tensor, const char* like_name, const at::Tensor& like) {
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(),
                text("expected ", name, " and ", like_name, " to have the same dtype, but got ", tensor.scalar_type(),
                     " and ", like.scalar_type()));
    TORCH_CHECK(tensor.device() == like.device(),
                text("expected ", name, " and ", like_name, " to be on the same device, but got ", tensor.device(),
                     " and ", like.device()));
}

Extents spatial(const at::Tensor& tensor) {
    return {tensor.size(2), tensor.size(3), tensor.size(4)};
}

Problem with_geometry(const Geometry& geometry, const at::Tensor& first, const at::Tensor& second) {
    Problem problem;
    problem.stride = geometry.stride;
    problem.padding = geometry.padding;
    problem.output_padding = geometry.output_padding;
    problem.dilation = geometry.dilation;
    problem.groups = geometry.groups;
    problem.dtype = dtype(first);
    problem.layout = layout(common_format(first, second));
    return problem;
}

int64_t dst_channels(const at::Tensor& weight, int64_t groups) {
    TORCH_CHECK(groups >= 1 && groups <= weight.size(0) && weight.size(0) % groups == 0,
                text("expected groups to be at least 1 and to divide the first size of weight, but got groups=", groups,
                     " and weight of size ", weight.sizes()));
    return weight.size(1) * groups;
}

/// dst is affine in src with the stride as its slope, so that its value at src = 1 gives the src of any dst.
/// Where none is exact the caller finds that problem.dst() differs; unsigned arithmetic wraps instead of overflowing.
Extents src_of(Problem problem, const Extents& dst) {
    problem.src = {1, 1, 1};
    const Extents first = problem.dst();
    for (size_t i = 0; i < 3; ++i) {
        const uint64_t beyond = static_cast<uint64_t>(dst[i]) - static_cast<uint64_t>(first[i]);
        if (problem.stride[i] > 0) problem.src[i] = static_cast<int64_t>(beyond) / problem.stride[i] + 1;
    }
    return problem.src;
}

void check_grad_dst(const Problem& problem, const at::Tensor& grad_dst) {
    const std::vector<int64_t> expected = dst_sizes(problem);
    TORCH_CHECK(grad_dst.sizes() == expected, text("expected grad_output of size ", at::IntArrayRef(expected), " for ",
                                                   problem.str(), ", but got grad_output of size ", grad_dst.sizes()));
}

/// Every call comes past here: an operand gets its name only where it is wrong.
void check_operand_kinds(at::TensorList operands, const at::Tensor& like) {
    for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].scalar_type() == like.scalar_type() && operands[i].device() == like.device()) continue;
        check_same_kind(text("operand ", i, " of the epilogue").c_str(), operands[i], "the convolution", like);
    }
}

bool broadcasts_to(at::IntArrayRef sizes, at::IntArrayRef expected) {
    if (sizes.size() != expected.size()) return false;
    for (size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] != 1 && sizes[i] != expected[i]) return false;
    return true;
}

void check_operand_size(const Step& step, const at::Tensor& operand, const Problem& problem) {
    const bool channel = takes_channel(step.kind);
    if (channel && operand.dim() == 1 && operand.size(0) == problem.dst_channels) return;
    const std::vector<int64_t> expected = channel ? std::vector<int64_t>{problem.dst_channels} : dst_sizes(problem);
    TORCH_CHECK(!channel && broadcasts_to(operand.sizes(), expected),
                text("expected operand ", step.operand, " of the epilogue (", name(step.kind), ") to ",
                     channel ? "have" : "broadcast to", " size ", at::IntArrayRef(expected), ", but got size ",
                     operand.sizes()));
}

} // namespace

at::MemoryFormat common_format(const at::Tensor& first, const at::Tensor& second) {
    const bool last = first.suggest_memory_format() == at::MemoryFormat::ChannelsLast3d ||
                      second.suggest_memory_format() == at::MemoryFormat::ChannelsLast3d;
    return last && first.scalar_type() != at::kDouble ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::Contiguous;
}

Layout layout(at::MemoryFormat format) {
    return format == at::MemoryFormat::ChannelsLast3d ? Layout::ndhwc : Layout::ncdhw;
}

at::MemoryFormat format(const Problem& problem) {
    return problem.layout == Layout::ndhwc ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::Contiguous;
}

void check_pair(const char* first_name, const at::Tensor& first, const char* second_name, const at::Tensor& second) {
    check_rank(first_name, first);
    check_rank(second_name, second);
    check_same_kind(second_name, second, first_name, first);
    dtype(first);
}

void check_fwd(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias, at::TensorList operands) {
    check_pair("input", src, "weight", weight);
    if (bias.has_value() && bias->defined()) check_same_kind("bias", *bias, "input", src);
    check_operand_kinds(operands, src);
}

Problem fwd_problem(const at::Tensor& src, const at::Tensor& weight, const OptionalTensor& bias,
                    const Geometry& geometry) {
    check_fwd(src, weight, bias, {});
    TORCH_CHECK(src.size(1) == weight.size(0),
                text("expected input to have ", weight.size(0), " channels for a weight of size ", weight.sizes(),
                     ", but got input of size ", src.sizes()));
    Problem problem = with_geometry(geometry, src, weight);
    problem.direction = Direction::fwd;
    problem.batch = src.size(0);
    problem.src_channels = src.size(1);
    problem.dst_channels = dst_channels(weight, geometry.groups);
    problem.src = spatial(src);
    problem.kernel = spatial(weight);
    problem.validate();
    TORCH_CHECK(!bias.has_value() || !bias->defined() || bias->sizes() == at::IntArrayRef(problem.dst_channels),
                text("expected bias to be 1-dimensional with ", problem.dst_channels,
                     " elements, but got bias of size ", bias->sizes()));
    return problem;
}

Problem bwd_data_problem(const at::Tensor& grad_dst, const at::Tensor& weight, const Geometry& geometry) {
    check_pair("grad_output", grad_dst, "weight", weight);
    Problem problem = with_geometry(geometry, grad_dst, weight);
    problem.direction = Direction::bwd_data;
    problem.batch = grad_dst.size(0);
    problem.src_channels = weight.size(0);
    problem.dst_channels = dst_channels(weight, geometry.groups);
    problem.kernel = spatial(weight);
    problem.src = src_of(problem, spatial(grad_dst));
    problem.validate();
    check_grad_dst(problem, grad_dst);
    return problem;
}

Problem bwd_weight_problem(const at::Tensor& src, const at::Tensor& grad_dst, at::IntArrayRef kernel,
                           const Geometry& geometry) {
    check_pair("input", src, "grad_output", grad_dst);
    Problem problem = with_geometry(geometry, src, grad_dst);
    problem.direction = Direction::bwd_weight;
    problem.batch = src.size(0);
    problem.src_channels = src.size(1);
    problem.dst_channels = grad_dst.size(1);
    problem.src = spatial(src);
    problem.kernel = extents("kernel", kernel);
    problem.validate();
    check_grad_dst(problem, grad_dst);
    return problem;
}

Problem epilogue_problem(const at::Tensor& grad_dst) {
    check_rank("grad_output", grad_dst);
    Problem problem;
    problem.dtype = dtype(grad_dst);
    problem.layout = layout(common_format(grad_dst, grad_dst));
    problem.batch = grad_dst.size(0);
    problem.src_channels = grad_dst.size(1);
    problem.dst_channels = grad_dst.size(1);
    problem.src = spatial(grad_dst);
    problem.validate();
    return problem;
}

Epilogue parsed_epilogue(Text text) {
    return text.empty() ? Epilogue() : Epilogue::parse({text.data(), text.size()});
}

void check_operands(const Epilogue& epilogue, at::TensorList operands, const Problem& problem, const at::Tensor& like) {
    TORCH_CHECK(operands.size() == static_cast<size_t>(epilogue.operand_count()),
                text("the epilogue '", epilogue.str(), "' takes ", epilogue.operand_count(), " operands, but got ",
                     operands.size()));
    check_operand_kinds(operands, like);
    for (const Step& step : epilogue.steps())
        if (step.operand >= 0) check_operand_size(step, operands[static_cast<size_t>(step.operand)], problem);
}

Epilogue checked_epilogue(Text text, at::TensorList operands, const Problem& problem, const at::Tensor& like) {
    const Epilogue epilogue = parsed_epilogue(text);
    check_operands(epilogue, operands, problem, like);
    return epilogue;
}

void check_saved(const at::Tensor& saved, const Epilogue& epilogue, const at::Tensor& grad_dst) {
    if (epilogue.saved() == Saved::nothing) return;
    check_same_kind("saved", saved, "grad_output", grad_dst);
    TORCH_CHECK(saved.sizes() == grad_dst.sizes(), text("expected saved to have the size of grad_output, ",
                                                        grad_dst.sizes(), ", but got size ", saved.sizes()));
}

std::vector<int64_t> src_sizes(const Problem& problem) {
    return {problem.batch, problem.src_channels, problem.src[0], problem.src[1], problem.src[2]};
}

std::vector<int64_t> dst_sizes(const Problem& problem) {
    const Extents dst = problem.dst();
    return {problem.batch, problem.dst_channels, dst[0], dst[1], dst[2]};
}

std::vector<int64_t> weight_sizes(const Problem& problem) {
    return {problem.src_channels, problem.dst_channels_per_group(), problem.kernel[0], problem.kernel[1],
            problem.kernel[2]};
}

} // namespace tconv3d::ops
