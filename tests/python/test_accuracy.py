"""Real-valued data: the error against double precision is at most twice that of PyTorch in the same dtype."""

from __future__ import annotations

import pytest
import torch

import problem_file
from oracle import LAYOUTS, Inputs, Results, pytorch, real_inputs, tconv3d_ops
from problem_file import Problem

NAMES = (
    *("plain", "plain_same", "kb1_58_small", "kb1_68_small", "kb1_72_small", "kb1_77_small", "kb2_3_small"),
    *("kb2_61_small", "kb2_78_small", "kb2_100_small", "nnunet_mid_small", "gan_first_small", "gan_mid_small"),
    *("depthwise_up", "ci200_co3_k3", "ci2_co257", "ci31_co33", "ci17_co17", "row_97_s2", "asym_e"),
    *("blocks_channels_and_row", "blocks_voxels", "blocks_weight_sum", "blocks_upsampling"),
)
PROBLEMS = [problem for problem in problem_file.read("correctness.txt") if problem.name in NAMES]


def rounded(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Both sides start from the same rounded data: the error of rounding the inputs is nobody's."""
    return Inputs(*(tensor.to(dtype).double() for tensor in inputs))


def largest(tensor: torch.Tensor) -> float:
    return tensor.double().abs().max().item()


def pytorchs_error(theirs: torch.Tensor, exact: torch.Tensor) -> float:
    error = largest(theirs.double() - exact)
    # Some of PyTorch's bf16 weight gradients are NaN or 1e38: that is no error to allow twice of.
    return error if error < largest(exact) else 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_error_is_at_most_twice_pytorchs(problem: Problem, dtype: torch.dtype) -> None:
    """Twice PyTorch's error and one rounding of the largest value."""
    inputs = rounded(real_inputs(problem), dtype)
    exact = pytorch(problem, inputs)
    theirs = pytorch(problem, inputs.cast(dtype))
    for layout, memory_format in LAYOUTS.items():
        ours = tconv3d_ops(problem, inputs.cast(dtype, memory_format))
        for name, mine, yours, want in zip(Results._fields, ours, theirs, exact):
            error, allowed = largest(mine.double() - want), 2 * pytorchs_error(yours, want)
            assert error <= allowed + torch.finfo(dtype).eps * largest(want), f"{name} {layout}"


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_double_precision(problem: Problem) -> None:
    """Nothing is more precise than fp64 here, so its bound is a priori: a few roundings of the sum of magnitudes."""
    inputs = real_inputs(problem)
    magnitudes = pytorch(problem, Inputs(*(tensor.abs() for tensor in inputs)))
    theirs = pytorch(problem, inputs)
    for memory_format in LAYOUTS.values():
        ours = tconv3d_ops(problem, inputs.cast(torch.float64, memory_format))
        for name, mine, yours, magnitude in zip(Results._fields, ours, theirs, magnitudes):
            bound = 4 * torch.finfo(torch.float64).eps * largest(magnitude)
            assert largest(mine - yours) <= bound, name


def test_all_named_problems_exist() -> None:
    assert len(PROBLEMS) == len(NAMES)


def test_halves_accumulate_in_fp32() -> None:
    """4096 times 1/4 is 1024; a sum kept in bf16 stops growing at 64."""
    src = torch.full((1, 4096, 1, 1, 1), 0.5, dtype=torch.bfloat16)
    weight = torch.full((4096, 1, 1, 1, 1), 0.5, dtype=torch.bfloat16)
    dst = torch.ops.tconv3d.fwd(src, weight, None, [1] * 3, [0] * 3, [0] * 3, 1, [1] * 3, "")
    assert dst.item() == 1024


def test_infinities_and_nan_stay_where_their_taps_reach() -> None:
    """A non-finite src voxel reaches its own outputs and no others: no tap is multiplied by an inserted zero."""
    src = torch.ones(1, 1, 3, 3, 3)
    src[0, 0, 1, 1, 1] = float("nan")
    weight = torch.ones(1, 1, 2, 2, 2)
    dst = torch.ops.tconv3d.fwd(src, weight, None, [3] * 3, [0] * 3, [2] * 3, 1, [1] * 3, "")
    assert dst.isnan().sum() == 8
    assert dst[0, 0, 3:5, 3:5, 3:5].isnan().all()
