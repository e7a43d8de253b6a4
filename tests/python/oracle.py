"""What PyTorch computes in double precision, and data on which that is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from problem_file import Problem

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
LAYOUTS = {"ncdhw": torch.contiguous_format, "ndhwc": torch.channels_last_3d}


class Inputs(NamedTuple):
    src: Tensor
    weight: Tensor
    bias: Tensor
    grad_dst: Tensor

    def cast(self, dtype: torch.dtype, layout: torch.memory_format = torch.contiguous_format) -> Inputs:
        src, grad_dst = (tensor.to(dtype).contiguous(memory_format=layout) for tensor in (self.src, self.grad_dst))
        return Inputs(src, self.weight.to(dtype), self.bias.to(dtype), grad_dst)


class Results(NamedTuple):
    dst: Tensor
    grad_src: Tensor
    grad_weight: Tensor
    grad_bias: Tensor


def integers(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Whole numbers from -3 to 3: every sum stays below 2^24, so it is exact in fp32 and rounded once when stored."""
    return torch.randint(-3, 4, shape, generator=generator).double()


def integer_inputs(problem: Problem, seed: int = 0) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    shapes = (problem.src_shape, problem.weight_shape, (problem.co,), problem.dst_shape)
    return Inputs(*(integers(shape, generator) for shape in shapes))


def real_inputs(problem: Problem, seed: int = 0) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    shapes = (problem.src_shape, problem.weight_shape, (problem.co,), problem.dst_shape)
    return Inputs(*(torch.randn(shape, generator=generator, dtype=torch.double) for shape in shapes))


def pytorch(problem: Problem, inputs: Inputs) -> Results:
    """PyTorch's own results, in the dtype of the inputs."""
    s, p, op, g, d = problem.settings
    dst = F.conv_transpose3d(inputs.src, inputs.weight, inputs.bias, s, p, op, g, d)
    gradients = torch.ops.aten.convolution_backward(
        inputs.grad_dst, inputs.src, inputs.weight, [problem.co], s, p, d, True, op, g, [True, True, True]
    )
    return Results(dst, *gradients)


def tconv3d_ops(problem: Problem, inputs: Inputs) -> Results:
    """The results of torch.ops.tconv3d, straight from the ops."""
    ops = torch.ops.tconv3d
    dst = ops.fwd(inputs.src, inputs.weight, inputs.bias, *problem.settings, "", [])
    grad_src = ops.bwd_data(inputs.grad_dst, inputs.weight, *problem.settings)
    gradients = ops.bwd_weight(inputs.src, inputs.grad_dst, problem.k, *problem.settings, True)
    return Results(dst, grad_src, *gradients)


def differences(actual: Results, exact: Results) -> list[str]:
    """A line for each result that is not the exact one, rounded once to its dtype."""
    lines = []
    for name, got, want in zip(Results._fields, actual, exact):
        want = want.to(got.dtype)
        if got.shape != want.shape:
            lines.append(f"{name}: shape {tuple(got.shape)}, not {tuple(want.shape)}")
        elif not torch.equal(got, want):
            wrong = (got != want).nonzero()
            first = tuple(wrong[0].tolist())
            lines.append(
                f"{name}: {len(wrong)} of {want.numel()} differ, first at {first}: {got[first]}, not {want[first]}"
            )
    return lines


def ours_ran(function: Callable[..., Any], *arguments: Tensor) -> bool:
    """Whether a call reached torch.ops.tconv3d."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(*arguments)
    return any(event.key == "tconv3d::fwd" for event in profile.key_averages())
