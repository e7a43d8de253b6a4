"""How much of a network's time its transposed convolutions take: what a faster operator can gain at most."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn


def milliseconds(call: Callable[[], object], device: str) -> float:
    synchronize(device)
    begin = time.perf_counter()
    call()
    synchronize(device)
    return (time.perf_counter() - begin) * 1e3


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def share_of_transposed(model: nn.Module, x: Tensor, device: str) -> float:
    """How much of an inference its transposed convolutions take."""
    begins: dict[nn.Module, float] = {}
    spent = 0.0

    def before(module: nn.Module, _: object) -> None:
        synchronize(device)
        begins[module] = time.perf_counter()

    def after(module: nn.Module, *_: object) -> None:
        nonlocal spent
        synchronize(device)
        spent += (time.perf_counter() - begins[module]) * 1e3

    modules = [module for module in model.modules() if isinstance(module, nn.ConvTranspose3d)]
    hooks = [module.register_forward_pre_hook(before) for module in modules]
    hooks += [module.register_forward_hook(after) for module in modules]
    with torch.no_grad():
        model(x)
        spent = 0.0
        whole = milliseconds(lambda: model(x), device)
    for hook in hooks:
        hook.remove()
    return spent / whole
