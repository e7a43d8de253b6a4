#pragma once

#include "half.hpp"
#include "tconv3d/problem.hpp"

namespace tconv3d {

/// Calls body with a null pointer of the storage type of `dtype`: body([](auto* tag) { using Storage = ...; }).
template <typename Body>
void with_storage(DType dtype, Body&& body) {
    switch (dtype) {
    case DType::f32:
        return body(static_cast<float*>(nullptr));
    case DType::f64:
        return body(static_cast<double*>(nullptr));
    case DType::bf16:
        return body(static_cast<BFloat16*>(nullptr));
    case DType::f16:
        return body(static_cast<Float16*>(nullptr));
    }
}

} // namespace tconv3d
