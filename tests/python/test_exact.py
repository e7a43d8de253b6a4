"""Every implementation × dtype × layout × direction equals PyTorch in double precision, bit for bit, on integers."""

from __future__ import annotations

from functools import lru_cache

import pytest

import problem_file
from oracle import DTYPES, LAYOUTS, Inputs, Results, differences, integer_inputs, pytorch, tconv3d_ops
from problem_file import Problem

PROBLEMS = problem_file.read("correctness.txt")


@lru_cache(maxsize=4)
def inputs_and_exact(problem: Problem) -> tuple[Inputs, Results]:
    inputs = integer_inputs(problem)
    return inputs, pytorch(problem, inputs)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_exact(problem: Problem, forced: str) -> None:
    inputs, exact = inputs_and_exact(problem)
    wrong = [
        f"{dtype} {layout} {line}"
        for dtype in DTYPES
        for layout, memory_format in LAYOUTS.items()
        for line in differences(tconv3d_ops(problem, inputs.cast(dtype, memory_format)), exact)
    ]
    assert not wrong, "\n".join([f"{forced}: {problem.text}  # {problem.why}", *wrong])


def test_a_difference_is_seen() -> None:
    """The comparison itself can fail: one wrong value, one wrong extent."""
    problem = PROBLEMS[2]
    _, exact = inputs_and_exact(problem)
    one_off = exact.dst.clone()
    one_off[-1, -1, -1, -1, -1] += 1
    assert differences(exact._replace(dst=one_off), exact)[0].startswith("dst: 1 of")
    assert differences(exact._replace(dst=exact.dst[1:]), exact)[0].startswith("dst: shape")
