#pragma once

// The steps of an epilogue whose value is more than one operation, with the values, the NaN and the sides of every kink
// of core/steps.hpp, which the host tests compare them with: this file compiles for the host too.
#ifndef __CUDACC_RTC__
#include <cmath>
#endif

namespace steps {

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

/// The two halves of clamp. Every comparison with a NaN is false: it passes.
template <typename T>
inline T at_least(T x, T min) {
    return x < min ? min : x;
}

template <typename T>
inline T at_most(T x, T max) {
    return x > max ? max : x;
}

template <typename T>
inline T relu(T x) {
    return at_least(x, T(0));
}

template <typename T>
inline T leaky_relu(T x, T slope) {
    return x > T(0) ? x : x * slope;
}

template <typename T>
inline T elu(T x, T alpha) {
    return x <= T(0) ? expm1(x) * alpha : x;
}

template <typename T>
inline T sigmoid(T x) {
    return T(1) / (T(1) + exp(-x));
}

template <typename T>
inline T silu(T x) {
    return x / (T(1) + exp(-x));
}

template <typename T>
inline T gelu(T x) {
    return x * (T(0.5) * (T(1) + erf(x * T(0.70710678118654752440))));
}

template <typename T>
inline T gelu_tanh(T x) {
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
    return T(0.5) * x * (T(1) + tanh(inner));
}

template <typename T>
inline T hardswish(T x) {
    return x * at_most(at_least(x + T(3), T(0)), T(6)) / T(6);
}

template <typename T>
inline T softplus(T x, T beta, T threshold) {
    return x * beta > threshold ? x : log1p(exp(x * beta)) / beta;
}

template <typename T>
inline T mish(T x) {
    return x * tanh(log1p(exp(x)));
}

} // namespace steps
