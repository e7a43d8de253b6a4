"""Tensors on a GPU, for the tests that run there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tconv3d import conv_transpose3d

SRC, WEIGHT, BIAS, DST = (2, 5, 3, 4, 17), (5, 7, 3, 2, 3), (7,), (2, 7, 3, 8, 33)
SETTINGS = {"stride": (1, 2, 2), "padding": (1, 0, 1)}


def whole(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randint(-3, 4, shape, device="cuda").to(dtype)


def real(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.randn(shape, dtype=dtype, device="cuda") for shape in shapes]


def forced(*arguments: Any, **settings: Any) -> Tensor | None:
    """None where the implementation that TCONV3D_CUDA_IMPL names does not take the problem."""
    try:
        return conv_transpose3d(*arguments, **settings)
    except RuntimeError as error:
        if "cannot take" in str(error):
            return None
        raise


def full_precision() -> None:
    """Unless a test asks for tf32: PyTorch, which the tests compare with, then has one answer."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
