"""Calls whose tensors are small take no time, whatever lies between the taps: work follows the products."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

import problem_file
from oracle import integer_inputs, pytorch, tconv3d_ops

#: What PyTorch does in milliseconds, and took tconv3d seconds to minutes by the spans between taps or by its reference.
WIDE = {
    "large_kernel": "ci1 co1 1x1x1 k101",
    "far_dilation": "ci1 co1 2x2x2 k2x1x1 d100000x1x1",
    "dilation_over_src": "ci16 co16 8x8x8 k3 d32",
    "many_phases": "ci32 co1 4x4x4 k20 s20",
    "most_taps_outside": "ci64 co64 8x8x8 k3 d32 p32",
    "most_src_cropped": "ci256 co256 16x16x16 k1 p7",
}
LIMIT = 1.0  # seconds; they take 5 to 150 ms


def seconds(body: Callable[[], object]) -> float:
    """The least of a few tries: the machine may be busy."""
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        body()
        best = min(best, time.perf_counter() - begin)
        if best < LIMIT:
            break
    return best


@pytest.mark.parametrize("name", WIDE)
def test_follows_the_products(name: str) -> None:
    problem = problem_file.parse(f"{name}: {WIDE[name]}   # {name}")
    inputs = integer_inputs(problem).cast(torch.float32)
    ops = torch.ops.tconv3d
    settings = problem.settings
    assert seconds(lambda: ops.fwd(inputs.src, inputs.weight, inputs.bias, *settings, "relu", [])) < LIMIT
    assert seconds(lambda: ops.bwd_data(inputs.grad_dst, inputs.weight, *settings)) < LIMIT
    assert seconds(lambda: ops.bwd_weight(inputs.src, inputs.grad_dst, problem.k, *settings, True)) < LIMIT
    for ours, theirs in zip(tconv3d_ops(problem, inputs), pytorch(problem, inputs)):
        assert torch.equal(ours, theirs)


def test_taps_beyond_every_size_reach_nothing() -> None:
    src = torch.randn(1, 1, 1, 1, 1, requires_grad=True)
    weight = torch.randn(1, 1, 2, 1, 1, requires_grad=True)
    settings = ([1, 1, 1], [2**61, 0, 0], [0, 0, 0], 1, [2**62, 1, 1])
    dst = torch.ops.tconv3d.fwd(src, weight, None, *settings, "", [])
    dst.sum().backward()
    assert dst.tolist() == [[[[[0.0]]]]]
    for leaf in (src, weight):
        assert leaf.grad is not None
        assert not leaf.grad.any()


@pytest.mark.parametrize("direction", ["fwd", "bwd_data", "bwd_weight"])
@pytest.mark.parametrize(
    "problem",
    [
        "n100000000 ci32 co32 8x8x8 k3 p1",
        "ci1 co1 1x1x1 k1000000000x1x1",
        "ci1 co1 1000000x1000000x10 k101",
        "ci1 co1 2x2x2 k1 s4611686018427387904 p2305843009213693952",
        "ci8 co8 2x2x2 k4 s16 d7",
        "n9 ci16 co16 64x64x64 k31",
    ],
)
def test_plans_in_no_time(problem: str, direction: str) -> None:
    # A plan takes 5 ms at most; everything that would go through taps, voxels or images one by one takes far longer.
    assert seconds(lambda: torch.ops.tconv3d.explain(f"{problem} {direction}", "")) < 0.1


def test_explains_why_planes_are_passed_over() -> None:
    text = torch.ops.tconv3d.explain("ci16 co16 8x8x8 k3 d32", "")
    assert "implementation  columns: columns, " in text
    assert "passed over     planes: multiplies and packs the zeros between taps, estimated " in text
