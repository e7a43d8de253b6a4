#pragma once

#include <cmath>
#include <cstdint>

#include "tconv3d/epilogue.hpp"

/// The formulas of the epilogue steps: the one place that defines each step's value and derivative.
///
/// A step is a small functor. with_step() picks it, so that the switch over the kind stays outside of loops:
///     with_step<float>(step, [&](auto f) { for (i...) x[i] = f.value(x[i], operand[i]); });
/// Values, NaN and the sides of every kink follow PyTorch's operators and their backward formulas.
namespace tconv3d::steps {

// This header is compiled once per instruction set. Internal linkage keeps the linker from answering a portable
// caller with a copy that holds AVX-512 instructions; the C functions are called because std::exp(float) is itself
// an inline function that could leak so.
namespace {

inline float exp(float x) {
    return ::expf(x);
}
inline double exp(double x) {
    return ::exp(x);
}
inline float expm1(float x) {
    return ::expm1f(x);
}
inline double expm1(double x) {
    return ::expm1(x);
}
inline float log1p(float x) {
    return ::log1pf(x);
}
inline double log1p(double x) {
    return ::log1p(x);
}
inline float tanh(float x) {
    return ::tanhf(x);
}
inline double tanh(double x) {
    return ::tanh(x);
}
inline float erf(float x) {
    return ::erff(x);
}
inline double erf(double x) {
    return ::erf(x);
}

template <typename T>
struct Add {
    T v;
    T value(T x, T) const { return x + v; }
    T derivative(T, T) const { return T(1); }
};

template <typename T>
struct Mul {
    T v;
    T value(T x, T) const { return x * v; }
    T derivative(T, T) const { return v; }
};

template <typename T>
struct Div {
    T v;
    T value(T x, T) const { return x / v; }
    T derivative(T, T) const { return T(1) / v; }
};

/// Where the bounds cross, max wins. Every comparison with a NaN is false: it passes, and its derivative is 0.
template <typename T>
struct Clamp {
    T min;
    T max;
    T value(T x, T) const {
        const T raised = x < min ? min : x;
        return raised > max ? max : raised;
    }
    T derivative(T x, T) const { return ((x >= min) & (x <= max)) ? T(1) : T(0); }
};

template <typename T>
struct Relu {
    T value(T x, T) const { return x < T(0) ? T(0) : x; }
    T derivative(T x, T) const { return x <= T(0) ? T(0) : T(1); }
    T derivative_from_output(T y) const { return derivative(y, T(0)); }
};

template <typename T>
struct LeakyRelu {
    T slope;
    T value(T x, T) const { return x > T(0) ? x : x * slope; }
    T derivative(T x, T) const { return x > T(0) ? T(1) : slope; }
    T derivative_from_output(T y) const { return derivative(y, T(0)); }
};

template <typename T>
struct Elu {
    T alpha;
    T value(T x, T) const { return x <= T(0) ? expm1(x) * alpha : x; }
    T derivative(T x, T) const { return x <= T(0) ? exp(x) * alpha : T(1); }
    T derivative_from_output(T y) const { return y <= T(0) ? y + alpha : T(1); }
};

template <typename T>
struct Sigmoid {
    T value(T x, T) const { return T(1) / (T(1) + exp(-x)); }
    T derivative(T x, T) const { return derivative_from_output(value(x, T(0))); }
    T derivative_from_output(T y) const { return y * (T(1) - y); }
};

template <typename T>
struct Tanh {
    T value(T x, T) const { return tanh(x); }
    T derivative(T x, T) const { return derivative_from_output(tanh(x)); }
    T derivative_from_output(T y) const { return T(1) - y * y; }
};

template <typename T>
struct Silu {
    T value(T x, T) const { return x / (T(1) + exp(-x)); }
    T derivative(T x, T) const {
        const T sigmoid = T(1) / (T(1) + exp(-x));
        return sigmoid * (T(1) + x * (T(1) - sigmoid));
    }
};

template <typename T>
struct Gelu {
    static constexpr T kSqrtHalf = T(0.70710678118654752440);
    static constexpr T kInvSqrtTwoPi = T(0.39894228040143267794);
    static T cdf(T x) { return T(0.5) * (T(1) + erf(x * kSqrtHalf)); }
    T value(T x, T) const { return x * cdf(x); }
    T derivative(T x, T) const { return cdf(x) + x * kInvSqrtTwoPi * exp(T(-0.5) * x * x); }
};

template <typename T>
struct GeluTanh {
    static constexpr T kSqrtTwoOverPi = T(0.79788456080286535588);
    static constexpr T kCubic = T(0.044715);
    static T inner(T x) { return kSqrtTwoOverPi * (x + kCubic * x * x * x); }
    T value(T x, T) const { return T(0.5) * x * (T(1) + tanh(inner(x))); }
    T derivative(T x, T) const {
        const T t = tanh(inner(x));
        const T inner_derivative = kSqrtTwoOverPi * (T(1) + T(3) * kCubic * x * x);
        return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_derivative;
    }
};

template <typename T>
struct Hardswish {
    T value(T x, T) const {
        const T shifted = x + T(3);
        const T raised = shifted < T(0) ? T(0) : shifted;
        return x * (raised > T(6) ? T(6) : raised) / T(6);
    }
    T derivative(T x, T) const {
        const T inside = x < T(3) ? x / T(3) + T(0.5) : T(1);
        return x <= T(-3) ? T(0) : inside;
    }
};

template <typename T>
struct Softplus {
    T beta;
    T threshold;
    T value(T x, T) const { return x * beta > threshold ? x : log1p(exp(x * beta)) / beta; }
    T derivative(T x, T) const {
        const T z = exp(x * beta);
        return x * beta > threshold ? T(1) : z / (z + T(1));
    }
};

template <typename T>
struct Mish {
    T value(T x, T) const { return x * tanh(log1p(exp(x))); }
    T derivative(T x, T) const {
        const T t = tanh(log1p(exp(x)));
        const T sigmoid = T(1) / (T(1) + exp(-x));
        return t + x * sigmoid * (T(1) - t * t);
    }
};

template <typename T>
struct AddOperand {
    T value(T x, T operand) const { return x + operand; }
    T derivative(T, T) const { return T(1); }
};

template <typename T>
struct MulOperand {
    T value(T x, T operand) const { return x * operand; }
    T derivative(T, T operand) const { return operand; }
};

/// The kinked steps whose backward masks the gradient in PyTorch: an infinite one times a derivative of 0 is then 0.
template <typename Functor>
inline constexpr bool kMasksGradient = false;
template <typename T>
inline constexpr bool kMasksGradient<Clamp<T>> = true;
template <typename T>
inline constexpr bool kMasksGradient<Relu<T>> = true;
template <typename T>
inline constexpr bool kMasksGradient<Hardswish<T>> = true;

template <typename Functor, typename T>
inline T chain_gradient(const Functor&, T gradient, T derivative) {
    if constexpr (kMasksGradient<Functor>) return derivative == T(0) ? T(0) : gradient * derivative;
    return gradient * derivative;
}

/// Calls body(functor) once, with the functor of the step.
template <typename T, typename Body>
inline void with_step(const Step& step, Body&& body) {
    const T a = static_cast<T>(step.a);
    const T b = static_cast<T>(step.b);
    switch (step.kind) {
    case StepKind::add:
        return body(Add<T>{a});
    case StepKind::mul:
        return body(Mul<T>{a});
    case StepKind::div:
        return body(Div<T>{a});
    case StepKind::clamp:
        return body(Clamp<T>{a, b});
    case StepKind::relu:
        return body(Relu<T>{});
    case StepKind::leaky_relu:
        return body(LeakyRelu<T>{a});
    case StepKind::elu:
        return body(Elu<T>{a});
    case StepKind::silu:
        return body(Silu<T>{});
    case StepKind::gelu:
        return body(Gelu<T>{});
    case StepKind::gelu_tanh:
        return body(GeluTanh<T>{});
    case StepKind::sigmoid:
        return body(Sigmoid<T>{});
    case StepKind::tanh:
        return body(Tanh<T>{});
    case StepKind::hardswish:
        return body(Hardswish<T>{});
    case StepKind::softplus:
        return body(Softplus<T>{a, b});
    case StepKind::mish:
        return body(Mish<T>{});
    case StepKind::channel_add:
    case StepKind::residual_add:
        return body(AddOperand<T>{});
    case StepKind::channel_mul:
    case StepKind::residual_mul:
        return body(MulOperand<T>{});
    }
}

/// The same for the steps whose derivative follows from their output: derivative_from_output(y).
/// Returns false, without a call, for the others.
template <typename T, typename Body>
inline bool with_step_of_output(const Step& step, Body&& body) {
    const T a = static_cast<T>(step.a);
    switch (step.kind) {
    case StepKind::relu:
        return body(Relu<T>{}), true;
    case StepKind::sigmoid:
        return body(Sigmoid<T>{}), true;
    case StepKind::tanh:
        return body(Tanh<T>{}), true;
    // Only a positive slope keeps the sign of x in y.
    case StepKind::leaky_relu:
        return step.a > 0 && (body(LeakyRelu<T>{a}), true);
    case StepKind::elu:
        return step.a > 0 && (body(Elu<T>{a}), true);
    default:
        return false;
    }
}

} // namespace

} // namespace tconv3d::steps
