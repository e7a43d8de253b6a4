#pragma once

namespace tconv3d::testing {

inline constexpr const char* kEveryStep =
    "add(0.5) mul(-3) div(4) clamp(min=-1,max=0.5) clamp(min=-2) clamp(max=3) relu leaky_relu(0.2) elu(1.5) silu gelu "
    "gelu_tanh sigmoid tanh hardswish softplus(2,20) mish channel_add channel_mul residual_add residual_mul";

} // namespace tconv3d::testing
