"""How a GPU multiplies: a dtype and, for fp32, PyTorch's tf32 switch."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..problem import Problem

#: By the name on the command line: dtype and math of the problem string.
MODES = {
    "tf32": ("f32", "tf32"),
    "f32": ("f32", "full"),
    "bf16": ("bf16", "full"),
    "f16": ("f16", "full"),
    "f64": ("f64", "full"),
}


def in_mode(problem: Problem, mode: str) -> Problem:
    dtype, math = MODES[mode]
    return replace(problem, dtype=dtype, math=math)


def mode_of(problem: Problem) -> str:
    return "tf32" if problem.math == "tf32" else problem.dtype


def switch_tf32(mode: str) -> None:
    """Convolutions and matmuls of this process: tf32 in that mode, in full otherwise."""
    torch.backends.cudnn.allow_tf32 = mode == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
