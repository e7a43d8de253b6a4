#pragma once

// The derivatives of the steps of an epilogue, with the values, the NaN and the sides of every kink of core/steps.hpp,
// which the host tests compare them with: this file compiles for the host too.
#include "finish/steps.cuh"

namespace derivatives {

/// Where a derivative of 0 masks the gradient: an infinite one is 0 then.
template <typename T>
inline T masked(T gradient, T derivative) {
    return derivative == T(0) ? T(0) : gradient * derivative;
}

template <typename T>
inline T clamp(T x, T min, T max) {
    return x >= min && x <= max ? T(1) : T(0);
}

/// From the output too.
template <typename T>
inline T relu(T x) {
    return x <= T(0) ? T(0) : T(1);
}

/// From the output too, for a positive slope.
template <typename T>
inline T leaky_relu(T x, T slope) {
    return x > T(0) ? T(1) : slope;
}

template <typename T>
inline T elu(T x, T alpha) {
    return x <= T(0) ? steps::exp(x) * alpha : T(1);
}

template <typename T>
inline T elu_from_output(T y, T alpha) {
    return y <= T(0) ? y + alpha : T(1);
}

template <typename T>
inline T sigmoid_from_output(T y) {
    return y * (T(1) - y);
}

template <typename T>
inline T sigmoid(T x) {
    return sigmoid_from_output(steps::sigmoid(x));
}

template <typename T>
inline T tanh_from_output(T y) {
    return T(1) - y * y;
}

template <typename T>
inline T tanh(T x) {
    return tanh_from_output(steps::tanh(x));
}

template <typename T>
inline T silu(T x) {
    const T sigmoid = steps::sigmoid(x);
    return sigmoid * (T(1) + x * (T(1) - sigmoid));
}

template <typename T>
inline T gelu(T x) {
    const T cdf = T(0.5) * (T(1) + steps::erf(x * T(0.70710678118654752440)));
    return cdf + x * T(0.39894228040143267794) * steps::exp(T(-0.5) * x * x);
}

template <typename T>
inline T gelu_tanh(T x) {
    constexpr T kSqrtTwoOverPi = T(0.79788456080286535588), kCubic = T(0.044715);
    const T t = steps::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x));
    const T inner_derivative = kSqrtTwoOverPi * (T(1) + T(3) * kCubic * x * x);
    return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_derivative;
}

template <typename T>
inline T hardswish(T x) {
    const T inside = x < T(3) ? x / T(3) + T(0.5) : T(1);
    return x <= T(-3) ? T(0) : inside;
}

template <typename T>
inline T softplus(T x, T beta, T threshold) {
    const T z = steps::exp(x * beta);
    return x * beta > threshold ? T(1) : z / (z + T(1));
}

template <typename T>
inline T mish(T x) {
    const T t = steps::tanh(steps::log1p(steps::exp(x)));
    return t + x * steps::sigmoid(x) * (T(1) - t * t);
}

} // namespace derivatives
