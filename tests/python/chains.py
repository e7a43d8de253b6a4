"""The epilogue chains that the tests run over: every step by itself, and chains in which their order matters."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tconv3d import Epilogue

#: A chain from (one value per channel, another one, a tensor like dst, another one).
Build = Callable[[Tensor, Tensor, Tensor, Tensor], Epilogue]

STEPS: dict[str, Build] = {
    "add": lambda *_: Epilogue().add(0.75),
    "mul": lambda *_: Epilogue().mul(-1.5),
    "div": lambda *_: Epilogue().div(3.0),
    "clamp_min": lambda *_: Epilogue().clamp(min=-0.5),
    "clamp_max": lambda *_: Epilogue().clamp(max=0.5),
    "clamp": lambda *_: Epilogue().clamp(-0.75, 1.25),
    "relu": lambda *_: Epilogue().relu(),
    "leaky_relu": lambda *_: Epilogue().leaky_relu(0.2),
    "leaky_relu_default": lambda *_: Epilogue().leaky_relu(),
    "leaky_relu_negative": lambda *_: Epilogue().leaky_relu(-0.3),
    "elu": lambda *_: Epilogue().elu(),
    "elu_alpha": lambda *_: Epilogue().elu(1.7),
    "silu": lambda *_: Epilogue().silu(),
    "gelu": lambda *_: Epilogue().gelu(),
    "gelu_tanh": lambda *_: Epilogue().gelu("tanh"),
    "sigmoid": lambda *_: Epilogue().sigmoid(),
    "tanh": lambda *_: Epilogue().tanh(),
    "hardswish": lambda *_: Epilogue().hardswish(),
    "softplus": lambda *_: Epilogue().softplus(),
    "softplus_beta": lambda *_: Epilogue().softplus(beta=2.0, threshold=3.0),
    "mish": lambda *_: Epilogue().mish(),
    "channel_add": lambda a, *_: Epilogue().channel_add(a),
    "channel_mul": lambda a, *_: Epilogue().channel_mul(a),
    "residual_add": lambda a, b, x, y: Epilogue().residual_add(x),
    "residual_mul": lambda a, b, x, y: Epilogue().residual_mul(x),
}

CHAINS: dict[str, Build] = {
    "kernelbench_100": lambda *_: Epilogue().clamp(min=-1.0).div(2.0),
    "order_mul_add": lambda *_: Epilogue().mul(2.0).add(1.0),
    "order_add_mul": lambda *_: Epilogue().add(1.0).mul(2.0),
    "batch_norm_relu": lambda a, b, x, y: Epilogue().channel_mul(a).channel_add(b).relu(),
    "residual_block": lambda a, b, x, y: Epilogue().residual_add(x).leaky_relu(0.1).channel_mul(a),
    "gated": lambda a, b, x, y: Epilogue().sigmoid().residual_mul(x).residual_add(y),
    "two_kinks": lambda *_: Epilogue().leaky_relu(0.2).add(0.3).clamp(-1.0, 1.0),
    "smooth": lambda *_: Epilogue().silu().mul(1.5).tanh().softplus(),
    "all_operands": lambda a, b, x, y: Epilogue().channel_add(a).residual_mul(x).gelu().channel_mul(b).residual_add(y),
    "same_operand_twice": lambda a, b, x, y: Epilogue().residual_add(x).tanh().residual_mul(x),
    "long": lambda a, b, x, y: Epilogue().add(0.5).elu().mul(2.0).mish().hardswish().sigmoid().div(0.7).gelu("tanh"),
}

ALL = {**STEPS, **CHAINS}


def operands(dst_shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One value per channel twice, and a tensor like dst twice."""
    shapes = ((dst_shape[1],), (dst_shape[1],), dst_shape, dst_shape)
    channel_a, channel_b, residual_a, residual_b = (
        torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes
    )
    return channel_a, channel_b, residual_a, residual_b
