"""How long a call keeps the CPU busy beside the arithmetic, next to the same in PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import tconv3d

#: So small that the arithmetic takes hardly any time.
CHANNELS, EDGE = 4, 2
CALLS = 20


class Times(NamedTuple):
    """Microseconds of one forward call."""

    ours: float
    convolution: float  # PyTorch's module alone
    pytorch: float  # PyTorch's module, and the epilogue in PyTorch's operators

    def over_convolution(self) -> float:
        return self.ours / self.convolution

    def over_pytorch(self) -> float:
        return self.ours / self.pytorch


class _Case(NamedTuple):
    ours: Callable[[Tensor], Tensor]
    pytorch: Callable[[Tensor], Tensor]


def _cases(device: str) -> dict[str, _Case]:
    """A module by itself, with an activation, and with a tensor in its epilogue."""
    arguments: tuple[Any, ...] = (CHANNELS, CHANNELS, 2, 2)
    theirs, scale = nn.ConvTranspose3d(*arguments).to(device), torch.ones(CHANNELS, device=device)
    planes = scale.view(-1, 1, 1, 1)

    def ours(epilogue: Any = None) -> nn.Module:
        return tconv3d.ConvTranspose3d(*arguments, epilogue=epilogue).to(device)

    return {
        "plain": _Case(ours(), theirs),
        "relu": _Case(ours(nn.ReLU()), lambda src: torch.relu(theirs(src))),
        "channel_mul relu": _Case(
            ours(tconv3d.Epilogue().channel_mul(scale).relu()), lambda src: torch.relu(theirs(src) * planes)
        ),
    }


def times(grad: bool, rounds: int, device: str = "cpu") -> dict[str, Times]:
    """By the names of the cases. All calls take turns, a few each, and the least time of all rounds counts, so that
    other work on the machine disturbs all alike or none."""
    src, cases = torch.randn(1, CHANNELS, EDGE, EDGE, EDGE, device=device), _cases(device)
    calls = [call for case in cases.values() for call in case]
    least = dict.fromkeys(calls, float("inf"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.set_grad_enabled(grad):
            for _ in range(rounds):
                for call in calls:
                    least[call] = min(least[call], _microseconds(call, src))
    finally:
        torch.set_num_threads(threads)
    convolution = least[cases["plain"].pytorch]
    return {name: Times(least[case.ours], convolution, least[case.pytorch]) for name, case in cases.items()}


def _microseconds(call: Callable[[Tensor], Tensor], src: Tensor) -> float:
    """What a GPU still has to do when the calls have returned is no part of it."""
    if src.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call(src)
    return (time.perf_counter() - start) / CALLS * 1e6
