// Compiled once for each instruction set, with TCONV3D_ISA_NAMESPACE naming it. Everything here has internal linkage,
// and no header with inline functions of its own is used in loops: a weak symbol that holds AVX-512 instructions must
// never be what the linker picks for portable callers.
#include "kernels.hpp"

#include <type_traits>

#include "../core/half.hpp"
#include "../core/steps.hpp"

namespace tconv3d::cpu {

namespace {

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
// 32 registers: 8 × 3 sums, 3 loaded vectors, and the weights as operands broadcast from memory.
constexpr int64_t kCorrelateChannels = 8;
constexpr int64_t kCorrelateVectors = 3;
constexpr int64_t kDotRows = 4;
constexpr int64_t kDotColumns = 6;
#elif defined(__AVX2__)
constexpr int64_t kVectorBytes = 32;
// 16 registers: 4 × 3 sums, 3 loaded vectors, one broadcast weight.
constexpr int64_t kCorrelateChannels = 4;
constexpr int64_t kCorrelateVectors = 3;
constexpr int64_t kDotRows = 3;
constexpr int64_t kDotColumns = 4;
#else
constexpr int64_t kVectorBytes = 16;
constexpr int64_t kCorrelateChannels = 4;
constexpr int64_t kCorrelateVectors = 3;
constexpr int64_t kDotRows = 3;
constexpr int64_t kDotColumns = 4;
#endif

template <typename T>
struct VectorOf {
    typedef T type __attribute__((vector_size(kVectorBytes)));
    typedef T Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias));
};

template <typename T>
using Vector = typename VectorOf<T>::type;

template <typename T>
constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(T));

// Not by memcpy, with which Clang 14 keeps the sums of a register block in memory.
template <typename T>
inline Vector<T> load_vector(const T* from) {
    return *reinterpret_cast<const typename VectorOf<T>::Unaligned*>(from);
}

template <typename T>
inline void store_vector(T* to, const Vector<T>& vector) {
    *reinterpret_cast<typename VectorOf<T>::Unaligned*>(to) = vector;
}

/// Products that are added one after the other before the sum goes to memory: one long chain would round too often.
constexpr int64_t kChain = 64;

/// Moves the sums of a register block to memory: added to what is there, or in its place.
template <typename T, int64_t Channels, int64_t Vectors>
inline void flush_sums(Vector<T> (&sums)[Channels][Vectors], const CorrelateBlock<T>& block, bool accumulate) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < Channels; ++i) {
        T* out = block.sums + i * block.sums_pitch;
#pragma GCC unroll 4
        for (int64_t v = 0; v < Vectors; ++v) {
            if (accumulate) sums[i][v] += load_vector(out + v * kLanes<T>);
            store_vector(out + v * kLanes<T>, sums[i][v]);
            sums[i][v] = Vector<T>{};
        }
    }
}

template <typename T, int64_t Channels, int64_t Vectors>
void correlate_block(const CorrelateBlock<T>& block) {
    Vector<T> sums[Channels][Vectors] = {};
    bool accumulate = block.accumulate;
    int64_t chained = 0;
    for (int64_t t = 0; t < block.tap_count; ++t) {
        const T* slab = block.slab + block.taps[t].offset;
        const T* weights = block.weights + block.taps[t].index * block.channels * Channels;
        for (int64_t left = block.channels; left > 0;) {
            const int64_t count = left < kChain ? left : kChain;
            for (int64_t c = 0; c < count; ++c) {
                Vector<T> lanes[Vectors];
#pragma GCC unroll 4
                for (int64_t v = 0; v < Vectors; ++v) lanes[v] = load_vector(slab + v * kLanes<T>);
#pragma GCC unroll 8
                for (int64_t i = 0; i < Channels; ++i) {
#pragma GCC unroll 4
                    for (int64_t v = 0; v < Vectors; ++v) sums[i][v] += lanes[v] * weights[i];
                }
                slab += block.channel_pitch;
                weights += Channels;
            }
            left -= count;
            chained += count;
            if (chained >= kChain) {
                flush_sums<T, Channels, Vectors>(sums, block, accumulate);
                accumulate = true;
                chained = 0;
            }
        }
    }
    if (chained > 0 || !accumulate) flush_sums<T, Channels, Vectors>(sums, block, accumulate);
}

/// Adds the upper half of the lanes to the lower one until one is left: a fixed order, and the rounding of a tree.
template <typename T, int64_t Lanes = kLanes<T>>
inline T horizontal_sum(const T* lanes) {
    if constexpr (Lanes == 1) {
        return lanes[0];
    } else {
        typedef T Half __attribute__((vector_size(Lanes / 2 * sizeof(T))));
        Half lower, upper;
        __builtin_memcpy(&lower, lanes, sizeof lower);
        __builtin_memcpy(&upper, lanes + Lanes / 2, sizeof upper);
        lower += upper;
        T halves[Lanes / 2];
        __builtin_memcpy(halves, &lower, sizeof lower);
        return horizontal_sum<T, Lanes / 2>(halves);
    }
}

template <typename T, int64_t Rows, int64_t Columns>
void dot_block(const DotBlock<T>& block) {
    Vector<T> sums[Rows][Columns] = {};
    const T* columns[Columns];
    for (int64_t j = 0; j < Columns; ++j) columns[j] = block.columns + block.offsets[j];
    for (int64_t lane = 0; lane < block.lanes; lane += kLanes<T>) {
        Vector<T> rows[Rows];
#pragma GCC unroll 4
        for (int64_t i = 0; i < Rows; ++i) rows[i] = load_vector(block.rows + i * block.row_pitch + lane);
#pragma GCC unroll 8
        for (int64_t j = 0; j < Columns; ++j) {
            const Vector<T> column = load_vector(columns[j] + lane);
#pragma GCC unroll 4
            for (int64_t i = 0; i < Rows; ++i) sums[i][j] += rows[i] * column;
        }
    }
    // Through memory: sums whose lanes are taken apart would not stay in registers.
    T lanes[Rows * Columns][kLanes<T>];
#pragma GCC unroll 32
    for (int64_t k = 0; k < Rows * Columns; ++k) store_vector<T>(lanes[k], sums[k / Columns][k % Columns]);
    for (int64_t i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
        for (int64_t j = 0; j < Columns; ++j) {
            block.sums[i * block.sums_pitch + j] += horizontal_sum<T>(lanes[i * Columns + j]);
        }
    }
}

/// The block whose constant sizes are the run-time ones, at most I × J.
template <typename T, int64_t I, int64_t J>
void correlate_of_size(int64_t channels, int64_t vectors, const CorrelateBlock<T>& block) {
    if (channels == I && vectors == J) return correlate_block<T, I, J>(block);
    if constexpr (J > 1) {
        return correlate_of_size<T, I, J - 1>(channels, vectors, block);
    } else if constexpr (I > 1) {
        return correlate_of_size<T, I - 1, kCorrelateVectors>(channels, vectors, block);
    }
}

template <typename T, int64_t I, int64_t J>
void dot_of_size(int64_t rows, int64_t columns, const DotBlock<T>& block) {
    if (rows == I && columns == J) return dot_block<T, I, J>(block);
    if constexpr (J > 1) {
        return dot_of_size<T, I, J - 1>(rows, columns, block);
    } else if constexpr (I > 1) {
        return dot_of_size<T, I - 1, kDotColumns>(rows, columns, block);
    }
}

/// body(pointer) with the pointer in the storage type of dtype.
template <typename Body>
inline void with_storage(DType dtype, const void* data, Body&& body) {
    switch (dtype) {
    case DType::f32:
        return body(static_cast<const float*>(data));
    case DType::f64:
        return body(static_cast<const double*>(data));
    case DType::bf16:
        return body(static_cast<const BFloat16*>(data));
    case DType::f16:
        return body(static_cast<const Float16*>(data));
    }
}

/// The strides of dense rows and of de-interleaved planes as constants, so that the loops vectorise.
template <typename T, typename Storage>
inline void convert(const Storage* in, int64_t stride, int64_t count, T* out) {
    if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(load(in[i]));
    } else if (stride == 2) {
        for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(load(in[2 * i]));
    } else {
        for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(load(in[i * stride]));
    }
}

template <typename T>
void load_row(DType dtype, const void* data, int64_t offset, int64_t stride, int64_t count, T* out) {
    with_storage(dtype, data, [=](auto* elements) { convert(elements + offset, stride, count, out); });
}

template <typename T>
void load_slab_rows(DType dtype, const void* data, const SlabRows& rows, T* slab) {
    with_storage(dtype, data, [&](auto* elements) {
        for (int64_t y = 0; y < rows.rows; ++y) {
            T* out = slab + y * rows.row_pitch;
            for (int64_t i = 0; i < rows.zeros_before; ++i) out[i] = T(0);
            out += rows.zeros_before;
            convert(elements + rows.offset + y * rows.row_stride, rows.column_stride, rows.columns, out);
            out += rows.columns;
            for (int64_t i = 0; i < rows.zeros_after; ++i) out[i] = T(0);
        }
    });
}

template <typename T>
void store_row(DType dtype, const T* values, int64_t count, void* data, int64_t offset, int64_t stride) {
    with_storage(dtype, data, [=](auto* elements) {
        using Storage = std::remove_const_t<std::remove_pointer_t<decltype(elements)>>;
        Storage* out = const_cast<Storage*>(elements) + offset;
        if (stride == 1) {
            for (int64_t i = 0; i < count; ++i) store(out[i], values[i]);
        } else {
            for (int64_t i = 0; i < count; ++i) store(out[i * stride], values[i]);
        }
    });
}

template <typename T>
void spread_row(const T* values, int64_t count, T* out, int64_t stride) {
    if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) out[i] = values[i];
    } else if (stride == 2) {
        for (int64_t i = 0; i < count; ++i) out[2 * i] = values[i];
    } else {
        for (int64_t i = 0; i < count; ++i) out[i * stride] = values[i];
    }
}

template <typename T>
void add_spread_row(const T* values, int64_t count, T* out, int64_t stride) {
    if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) out[i] += values[i];
    } else {
        for (int64_t i = 0; i < count; ++i) out[i * stride] += values[i];
    }
}

template <typename T>
void add_to_row(T* values, int64_t count, T summand) {
    for (int64_t i = 0; i < count; ++i) values[i] += summand;
}

template <typename T>
void apply_step(const Step& step, const EpilogueRow<T>& row) {
    T* const values = row.values;
    const T* const residual = row.residual;
    const T channel_value = row.channel_value;
    const int64_t count = row.count;
    steps::with_step<T>(step, [=](auto formula) {
        if (residual) {
            for (int64_t i = 0; i < count; ++i) values[i] = formula.value(values[i], residual[i]);
        } else {
            for (int64_t i = 0; i < count; ++i) values[i] = formula.value(values[i], channel_value);
        }
    });
}

template <typename T>
double sum_row(DType dtype, const void* data, int64_t offset, int64_t stride, int64_t count) {
    double total = 0;
    with_storage(dtype, data, [&](auto* elements) {
        const auto* in = elements + offset;
        // Several independent sums: one chain of additions would wait for itself.
        constexpr int64_t kChains = 16;
        double chains[kChains] = {};
        int64_t i = 0;
        if (stride == 1) {
            for (; i + kChains <= count; i += kChains) {
                for (int64_t j = 0; j < kChains; ++j) chains[j] += static_cast<double>(load(in[i + j]));
            }
        }
        for (; i < count; ++i) chains[0] += static_cast<double>(load(in[i * stride]));
        for (int64_t j = 0; j < kChains; ++j) total += chains[j];
    });
    return total;
}

template <typename T>
constexpr Kernels<T> kTable = {
    kLanes<T>,
    kCorrelateChannels,
    kCorrelateVectors,
    kDotRows,
    kDotColumns,
    correlate_of_size<T, kCorrelateChannels, kCorrelateVectors>,
    dot_of_size<T, kDotRows, kDotColumns>,
    load_row<T>,
    load_slab_rows<T>,
    store_row<T>,
    spread_row<T>,
    add_spread_row<T>,
    add_to_row<T>,
    apply_step<T>,
    sum_row<T>,
};

} // namespace

namespace TCONV3D_ISA_NAMESPACE {

const Kernels<float>& kernels_f32() {
    return kTable<float>;
}

const Kernels<double>& kernels_f64() {
    return kTable<double>;
}

} // namespace TCONV3D_ISA_NAMESPACE

} // namespace tconv3d::cpu
