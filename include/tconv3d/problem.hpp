#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tconv3d {

enum class DType { f32, f64, bf16, f16 };
enum class Layout { ncdhw, ndhwc };
enum class Direction { fwd, bwd_data, bwd_weight };

/// How fp32 data may be multiplied: in full, or rounded to tf32 (GPU only; the CPU always multiplies in full).
enum class MathMode { full, tf32 };

/// One value per spatial dimension, in the order d, h, w.
using Extents = std::array<int64_t, 3>;

/// A 3D transposed convolution: everything about it but the data. The only place with shape arithmetic.
///
/// In one line: `n8 ci48 co24 96x96x96 k3 s1 p0 op0 d1 g1 f32 ncdhw fwd`. A spatial value is one number, or three
/// joined by `x`. Batch, stride, padding, output padding, dilation, groups and the words have defaults, and the order
/// is free.
struct Problem {
    int64_t batch = 1;
    int64_t src_channels = 1;
    int64_t dst_channels = 1;
    Extents src = {1, 1, 1};
    Extents kernel = {1, 1, 1};
    Extents stride = {1, 1, 1};
    Extents padding = {0, 0, 0};
    Extents output_padding = {0, 0, 0};
    Extents dilation = {1, 1, 1};
    int64_t groups = 1;
    DType dtype = DType::f32;
    MathMode math = MathMode::full;
    Layout layout = Layout::ncdhw;
    Direction direction = Direction::fwd;

    /// Throws Error, with the offending values, unless the problem can be carried out.
    void validate() const;

    Extents dst() const;
    bool channels_last() const { return layout == Layout::ndhwc; }
    int64_t src_channels_per_group() const { return src_channels / groups; }
    int64_t dst_channels_per_group() const { return dst_channels / groups; }

    int64_t src_voxels() const;
    int64_t dst_voxels() const;
    int64_t taps() const;
    int64_t src_elements() const;
    int64_t dst_elements() const;
    int64_t weight_elements() const;

    /// Multiplications and additions that the mathematics needs: taps that fall outside the output are not counted.
    double flops() const;
    /// Bytes of src, weight and dst, each moved once.
    double bytes() const;

    std::string str() const;
    static Problem parse(std::string_view line);

    bool operator==(const Problem& other) const;
    bool operator!=(const Problem& other) const { return !(*this == other); }
};

int64_t bytes_per_element(DType dtype);
const char* name(DType dtype);
const char* name(Layout layout);
const char* name(Direction direction);
const char* name(MathMode math);

/// `3`, or `1x2x3` when the dimensions differ.
std::string str(const Extents& extents);

} // namespace tconv3d
