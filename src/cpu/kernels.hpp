#pragma once

#include <cstdint>

#include "isa.hpp"
#include "tconv3d/epilogue.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d::cpu {

/// A tap that contributes to the lanes of a register block.
struct ActiveTap {
    int64_t index;  ///< its place in the packed weights of the phase
    int64_t offset; ///< in lanes
};

/// sums[i][lane] (+)= Σ over taps and channels of slab[channel][lane + offset] · weights[tap][channel][i]
template <typename T>
struct CorrelateBlock {
    const T* slab;
    int64_t channel_pitch;
    int64_t channels;
    const ActiveTap* taps;
    int64_t tap_count;
    const T* weights;
    T* sums;
    int64_t sums_pitch;
    bool accumulate;
};

/// sums[i][j] += Σ over lanes of rows[i][lane] · columns[offsets[j]][lane]
template <typename T>
struct DotBlock {
    const T* rows;
    int64_t row_pitch;
    const T* columns;
    const int64_t* offsets;
    int64_t lanes; ///< a multiple of the vector length; what lies past the data is zero
    T* sums;
    int64_t sums_pitch;
};

/// A row of outputs of one channel, and what the operand of a step has for it.
template <typename T>
struct EpilogueRow {
    T* values;
    int64_t count;
    T channel_value;   ///< of an operand with one value per channel
    const T* residual; ///< the row of an operand that is a tensor; null otherwise
};

/// Rows of a tensor on their way into a slab: each gets zeros around its columns.
struct SlabRows {
    int64_t offset;        ///< of the first element, in the tensor
    int64_t column_stride; ///< in the tensor
    int64_t row_stride;
    int64_t rows;
    int64_t zeros_before; ///< columns, in the slab
    int64_t columns;
    int64_t zeros_after;
    int64_t row_pitch; ///< in the slab
};

/// The code of one instruction set for sums in T. Everything that touches many elements is behind this table.
template <typename T>
struct Kernels {
    int64_t vector_lanes;
    int64_t correlate_channels; ///< output channels of a full register block
    int64_t correlate_vectors;  ///< vectors of lanes of a full register block
    int64_t dot_rows;
    int64_t dot_columns;

    void (*correlate)(int64_t channels, int64_t vectors, const CorrelateBlock<T>& block);
    void (*dot)(int64_t rows, int64_t columns, const DotBlock<T>& block);
    /// out[i] = data[offset + i * stride], converted.
    void (*load)(DType dtype, const void* data, int64_t offset, int64_t stride, int64_t count, T* out);
    void (*load_rows)(DType dtype, const void* data, const SlabRows& rows, T* slab);
    /// data[offset + i * stride] = values[i], rounded.
    void (*store)(DType dtype, const T* values, int64_t count, void* data, int64_t offset, int64_t stride);
    /// out[i * stride] = values[i]: one W phase into its row.
    void (*spread)(const T* values, int64_t count, T* out, int64_t stride);
    /// out[i * stride] += values[i]
    void (*add_spread)(const T* values, int64_t count, T* out, int64_t stride);
    void (*add)(T* values, int64_t count, T summand);
    void (*apply)(const Step& step, const EpilogueRow<T>& row);
    /// Σ data[offset + i * stride], in double.
    double (*sum)(DType dtype, const void* data, int64_t offset, int64_t stride, int64_t count);
};

template <typename T>
const Kernels<T>& kernels(Isa isa);

} // namespace tconv3d::cpu
