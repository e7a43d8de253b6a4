#include "tconv3d/problem.hpp"

#include "axis_reach.hpp"
#include "checked.hpp"
#include "tconv3d/error.hpp"

namespace tconv3d {

namespace {

constexpr const char* kDimensionNames[] = {"d", "h", "w"};

[[noreturn]] void fail(const Problem& problem, const std::string& what) {
    throw Error(what + " (problem: " + problem.str() + ")");
}

int64_t require_fits(const Problem& problem, Checked value, const char* what) {
    if (!value.fits()) fail(problem, std::string(what) + " do not fit in 64 bits");
    return value.value();
}

Checked product(const Extents& extents) {
    return Checked(extents[0]) * extents[1] * extents[2];
}

Checked src_count(const Problem& problem) {
    return Checked(problem.batch) * problem.src_channels * product(problem.src);
}

Checked dst_count(const Problem& problem) {
    return Checked(problem.batch) * problem.dst_channels * product(problem.dst());
}

Checked weight_count(const Problem& problem) {
    return Checked(problem.src_channels) * problem.dst_channels_per_group() * product(problem.kernel);
}

void require_at_least(const Problem& problem, const char* what, int64_t value, int64_t least) {
    if (value < least)
        fail(problem,
             std::string(what) + " must be at least " + std::to_string(least) + ", got " + std::to_string(value));
}

void require_at_least(const Problem& problem, const char* what, const Extents& values, int64_t least) {
    for (int64_t value : values)
        if (value < least)
            fail(problem, std::string(what) + " must be at least " + std::to_string(least) +
                              " in every dimension, got " + str(values));
}

void require_divisible(const Problem& problem, const char* what, int64_t channels) {
    if (channels % problem.groups != 0)
        fail(problem, std::string(what) + " " + std::to_string(channels) + " is not divisible by groups " +
                          std::to_string(problem.groups));
}

/// PyTorch's rule: a larger one would add outputs that another src extent already stands for.
void require_small_output_padding(const Problem& problem) {
    for (size_t i = 0; i < 3; ++i) {
        const int64_t extra = problem.output_padding[i];
        if (extra >= problem.stride[i] && extra >= problem.dilation[i])
            fail(problem, "output_padding must be smaller than either stride or dilation, got output_padding " +
                              std::to_string(extra) + ", stride " + std::to_string(problem.stride[i]) + ", dilation " +
                              std::to_string(problem.dilation[i]) + " in dimension " + kDimensionNames[i]);
    }
}

void require_positive_dst(const Problem& problem) {
    const Extents dst = problem.dst();
    for (int64_t extent : dst)
        if (extent < 1)
            fail(problem, "src " + str(problem.src) + " gives dst " + str(dst) + ": the output size is too small");
}

} // namespace

void Problem::validate() const {
    require_at_least(*this, "batch", batch, 0);
    require_at_least(*this, "src_channels", src_channels, 1);
    require_at_least(*this, "dst_channels", dst_channels, 1);
    require_at_least(*this, "src extents", src, 1);
    require_at_least(*this, "kernel", kernel, 1);
    require_at_least(*this, "stride", stride, 1);
    require_at_least(*this, "padding", padding, 0);
    require_at_least(*this, "output_padding", output_padding, 0);
    require_at_least(*this, "dilation", dilation, 1);
    require_at_least(*this, "groups", groups, 1);
    require_divisible(*this, "src_channels", src_channels);
    require_divisible(*this, "dst_channels", dst_channels);
    require_small_output_padding(*this);
    require_positive_dst(*this);
    const int64_t size = bytes_per_element(dtype);
    require_fits(*this, src_count(*this) * size, "the bytes of src");
    require_fits(*this, dst_count(*this) * size, "the bytes of dst");
    require_fits(*this, weight_count(*this) * size, "the bytes of weight");
    if (math == MathMode::tf32 && dtype != DType::f32)
        fail(*this, std::string("math mode tf32 is for dtype f32, got ") + name(dtype));
}

Extents Problem::dst() const {
    Extents extents;
    for (size_t i = 0; i < 3; ++i) {
        // The padding is taken off last: no index into dst, with or without padding, is beyond `padded`.
        const Checked padded =
            (Checked(src[i]) - 1) * stride[i] + Checked(dilation[i]) * (Checked(kernel[i]) - 1) + output_padding[i] + 1;
        extents[i] = require_fits(*this, padded - Checked(2) * padding[i], "the extents of dst");
    }
    return extents;
}

int64_t Problem::src_voxels() const {
    return require_fits(*this, product(src), "the voxels of src");
}

int64_t Problem::dst_voxels() const {
    return require_fits(*this, product(dst()), "the voxels of dst");
}

int64_t Problem::taps() const {
    return require_fits(*this, product(kernel), "the taps of kernel");
}

int64_t Problem::src_elements() const {
    return require_fits(*this, src_count(*this), "the elements of src");
}

int64_t Problem::dst_elements() const {
    return require_fits(*this, dst_count(*this), "the elements of dst");
}

int64_t Problem::weight_elements() const {
    return require_fits(*this, weight_count(*this), "the elements of weight");
}

double Problem::flops() const {
    double multiplications =
        static_cast<double>(batch) * static_cast<double>(src_channels) * static_cast<double>(dst_channels_per_group());
    for (const AxisReach& axis : axis_reaches(*this)) multiplications *= axis.pairs();
    return 2 * multiplications;
}

double Problem::bytes() const {
    const double elements = static_cast<double>(src_elements()) + static_cast<double>(weight_elements()) +
                            static_cast<double>(dst_elements());
    return elements * static_cast<double>(bytes_per_element(dtype));
}

bool Problem::operator==(const Problem& other) const {
    return batch == other.batch && src_channels == other.src_channels && dst_channels == other.dst_channels &&
           src == other.src && kernel == other.kernel && stride == other.stride && padding == other.padding &&
           output_padding == other.output_padding && dilation == other.dilation && groups == other.groups &&
           dtype == other.dtype && math == other.math && layout == other.layout && direction == other.direction;
}

int64_t bytes_per_element(DType dtype) {
    switch (dtype) {
    case DType::f32:
        return 4;
    case DType::f64:
        return 8;
    case DType::bf16:
    case DType::f16:
        return 2;
    }
    throw Error("unknown dtype " + std::to_string(static_cast<int>(dtype)));
}

} // namespace tconv3d
