"""A problem as two functions without arguments: tconv3d's operator and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..fallback import torch_conv_transpose3d
from ..problem import DTYPES, LAYOUTS, Problem

#: Largest difference from PyTorch, relative to the largest result. Both sides round, in different orders.
TOLERANCE = {"f32": 1e-4, "f64": 1e-10, "bf16": 3e-2, "f16": 4e-3}
#: On a GPU, by mode. In tf32 both sides round each factor to 11 bits, or one of them does not round at all.
GPU_TOLERANCE = {**TOLERANCE, "tf32": 2e-3}


@dataclass(frozen=True)
class Case:
    """Both sides of one direction on the same data."""

    ours: Callable[[], Tensor]
    theirs: Callable[[], Tensor]


def make_case(problem: Problem) -> Case:
    """Fresh random data in the problem's dtype and layout, and the calls of its direction."""
    tensors = make_tensors(problem)
    return Case(ours=lambda: tconv3d_call(problem, *tensors), theirs=lambda: torch_call(problem, *tensors))


def make_tensors(problem: Problem, device: str = "cpu") -> tuple[Tensor, ...]:
    """Src and weight, and grad_dst for a gradient: PyTorch's operator takes all three, whatever it reads of them."""
    shapes = [
        (problem.batch, problem.src_channels, *problem.src),
        (problem.src_channels, problem.dst_channels // problem.groups, *problem.kernel),
        (problem.batch, problem.dst_channels, *problem.facts()["dst"]),
    ]
    wanted = shapes[:2] if problem.direction == "fwd" else shapes
    return tuple(_random_tensor(problem, shape, device) for shape in wanted)


def tconv3d_call(problem: Problem, src: Tensor, weight: Tensor, grad_dst: Tensor | None = None) -> Tensor:
    """The problem's direction by tconv3d's operator."""
    ops, settings = torch.ops.tconv3d, parameters(problem)
    if problem.direction == "fwd":
        return ops.fwd(src, weight, None, *settings, "")  # type: ignore[no-any-return]
    if problem.direction == "bwd_data":
        return ops.bwd_data(grad_dst, weight, *settings)  # type: ignore[no-any-return]
    return ops.bwd_weight(src, grad_dst, list(problem.kernel), *settings, False)[0]  # type: ignore[no-any-return]


def torch_call(problem: Problem, src: Tensor, weight: Tensor, grad_dst: Tensor | None = None) -> Tensor:
    """The same by PyTorch's, as its autograd calls it."""
    settings = parameters(problem)
    if problem.direction == "fwd":
        return torch_conv_transpose3d(src, weight, None, *settings)
    stride, padding, output_padding, groups, dilation = settings
    wanted = [problem.direction == "bwd_data", problem.direction == "bwd_weight", False]
    gradients = torch.ops.aten.convolution_backward(
        grad_dst, src, weight, None, stride, padding, dilation, True, output_padding, groups, wanted
    )
    return gradients[0 if wanted[0] else 1]  # type: ignore[no-any-return]


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference relative to the largest value of `theirs`; infinite when a value is not finite."""
    difference = (ours.double() - theirs.double()).abs().max()
    error = float(difference / theirs.double().abs().max().clamp(min=1e-30))
    return error if error == error else float("inf")


def parameters(problem: Problem) -> tuple[list[int], list[int], list[int], int, list[int]]:
    """What follows weight and bias in the calls."""
    stride, padding, output_padding = list(problem.stride), list(problem.padding), list(problem.output_padding)
    return stride, padding, output_padding, problem.groups, list(problem.dilation)


def _random_tensor(problem: Problem, shape: tuple[int, ...], device: str) -> Tensor:
    values = torch.randn(shape, device=device).to(DTYPES[problem.dtype])
    return _in_layout(values, problem.layout)


def _in_layout(values: Tensor, layout: str) -> Tensor:
    """With one channel both layouts are the same memory, and only the strides can say which one is meant."""
    dense = values.contiguous(memory_format=LAYOUTS[layout])
    if layout == "ndhwc" and dense.shape[1] == 1:
        return dense.squeeze(1).unsqueeze(-1).permute(0, 4, 1, 2, 3)
    return dense
