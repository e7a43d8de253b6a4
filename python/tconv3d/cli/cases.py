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
    src = random_tensor(problem, (problem.batch, problem.src_channels, *problem.src))
    weight = random_tensor(problem, (problem.src_channels, problem.dst_channels // problem.groups, *problem.kernel))
    if problem.direction == "fwd":
        return _fwd(problem, src, weight)
    grad_dst = random_tensor(problem, (problem.batch, problem.dst_channels, *problem.facts()["dst"]))
    if problem.direction == "bwd_data":
        return _bwd_data(problem, src, weight, grad_dst)
    return _bwd_weight(problem, src, weight, grad_dst)


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference relative to the largest value of `theirs`; infinite when a value is not finite."""
    difference = (ours.double() - theirs.double()).abs().max()
    error = float(difference / theirs.double().abs().max().clamp(min=1e-30))
    return error if error == error else float("inf")


def _fwd(problem: Problem, src: Tensor, weight: Tensor) -> Case:
    settings = parameters(problem)
    return Case(
        ours=lambda: torch.ops.tconv3d.fwd(src, weight, None, *settings, ""),
        theirs=lambda: torch_conv_transpose3d(src, weight, None, *settings),
    )


def _bwd_data(problem: Problem, src: Tensor, weight: Tensor, grad_dst: Tensor) -> Case:
    settings = parameters(problem)
    return Case(
        ours=lambda: torch.ops.tconv3d.bwd_data(grad_dst, weight, *settings),
        theirs=lambda: _torch_bwd(problem, src, weight, grad_dst, [True, False, False])[0],
    )


def _bwd_weight(problem: Problem, src: Tensor, weight: Tensor, grad_dst: Tensor) -> Case:
    arguments = (list(problem.kernel), *parameters(problem), False)
    return Case(
        ours=lambda: torch.ops.tconv3d.bwd_weight(src, grad_dst, *arguments)[0],
        theirs=lambda: _torch_bwd(problem, src, weight, grad_dst, [False, True, False])[1],
    )


def _torch_bwd(
    problem: Problem, src: Tensor, weight: Tensor, grad_dst: Tensor, wanted: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    stride, padding, output_padding, groups, dilation = parameters(problem)
    return torch.ops.aten.convolution_backward(  # type: ignore[no-any-return]
        grad_dst, src, weight, None, stride, padding, dilation, True, output_padding, groups, wanted
    )


def parameters(problem: Problem) -> tuple[list[int], list[int], list[int], int, list[int]]:
    """What follows weight and bias in the calls."""
    stride, padding, output_padding = list(problem.stride), list(problem.padding), list(problem.output_padding)
    return stride, padding, output_padding, problem.groups, list(problem.dilation)


def random_tensor(problem: Problem, shape: tuple[int, ...], device: str = "cpu") -> Tensor:
    values = torch.randn(shape, device=device).to(DTYPES[problem.dtype])
    return values.contiguous(memory_format=LAYOUTS[problem.layout])


def gpu_tensors(problem: Problem) -> tuple[Tensor, Tensor]:
    """Src and weight on the GPU."""
    src = random_tensor(problem, (problem.batch, problem.src_channels, *problem.src), "cuda")
    weight_shape = (problem.src_channels, problem.dst_channels // problem.groups, *problem.kernel)
    return src, random_tensor(problem, weight_shape, "cuda")


def tconv3d_fwd(problem: Problem, src: Tensor, weight: Tensor) -> Tensor:
    return torch.ops.tconv3d.fwd(src, weight, None, *parameters(problem), "")  # type: ignore[no-any-return]
