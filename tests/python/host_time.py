"""How long a call keeps the CPU busy beside the arithmetic, next to PyTorch's module."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import tconv3d

#: So small that the arithmetic takes no time.
CHANNELS, EDGE = 4, 2
CALLS = 20


def modules() -> dict[str, nn.Module]:
    """PyTorch's module, and ours by itself, with an activation, and with a tensor in its epilogue."""
    arguments: tuple[Any, ...] = (CHANNELS, CHANNELS, 2, 2)
    scale = tconv3d.Epilogue().channel_mul(torch.ones(CHANNELS)).relu()
    return {
        "torch": nn.ConvTranspose3d(*arguments),
        "plain": tconv3d.ConvTranspose3d(*arguments),
        "relu": tconv3d.ConvTranspose3d(*arguments, epilogue=nn.ReLU()),
        "channel_mul relu": tconv3d.ConvTranspose3d(*arguments, epilogue=scale),
    }


def microseconds(grad: bool, rounds: int) -> dict[str, float]:
    """Of one forward call, by the names of `modules`. They take turns, a few calls each, and the least time of all
    rounds counts, so that other work on the machine disturbs all alike or none."""
    src, calls = torch.randn(1, CHANNELS, EDGE, EDGE, EDGE), modules()
    least = dict.fromkeys(calls, float("inf"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.set_grad_enabled(grad):
            for _ in range(rounds):
                for name, module in calls.items():
                    least[name] = min(least[name], _seconds(module, src))
    finally:
        torch.set_num_threads(threads)
    return {name: seconds * 1e6 for name, seconds in least.items()}


def _seconds(module: Callable[[torch.Tensor], torch.Tensor], src: torch.Tensor) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        module(src)
    return (time.perf_counter() - start) / CALLS
