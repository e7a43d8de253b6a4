"""Which modules PyTorch's operator computes sooner on the CPU."""

from __future__ import annotations

import math

import torch
from torch import nn

#: Above so many products for each output, arithmetic is the limit, and oneDNN multiplies faster than tconv3d.
MOST_PRODUCTS = 128
#: Above so many taps for each output, oneDNN is faster even with few channels.
MOST_TAPS = 8


def why_slower(module: nn.ConvTranspose3d) -> str | None:
    """Why tconv3d is expected to be slower on the CPU; None when it is not.

    A module knows its channels, kernel, stride and groups, not the extents. They say what the limit is: with few
    products for each output the store is, and tconv3d writes each output once where oneDNN does not; and with one
    output channel in a group oneDNN has nothing to fill its vectors with. On the problems of bench/results/cpu.json
    the rule takes those that are at least as fast as PyTorch's operator, to 5%, and no others (test_accelerate.py).
    """
    if module.weight.dtype == torch.float64 or not torch.backends.mkldnn.is_available():
        return None  # oneDNN does not compute these
    if isinstance(module.weight, nn.parameter.UninitializedParameter):
        return "its input channels are not known yet; call accelerate after the first input"
    if module.out_channels == module.groups:
        return None
    taps = math.prod(module.kernel_size) / math.prod(module.stride)
    products = taps * module.in_channels / module.groups
    if taps > MOST_TAPS:
        return f"{taps:.3g} taps for each output, above {MOST_TAPS}"
    if products > MOST_PRODUCTS:
        return f"{products:.4g} products for each output, above {MOST_PRODUCTS}"
    return None
