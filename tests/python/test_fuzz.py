"""The whole parameter space by hypothesis: exact equality with PyTorch in double precision.

TCONV3D_FUZZ_EXAMPLES=5000 draws that many problems at random; without it the same 200 are drawn each time.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

pytest.importorskip("hypothesis", reason="the fuzz needs hypothesis, which is not installed")

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conftest import FORCED, force
from oracle import DTYPES, LAYOUTS, differences, integer_inputs, pytorch, tconv3d_ops
from problem_file import Problem, Triple

EXAMPLES = int(os.environ.get("TCONV3D_FUZZ_EXAMPLES", "0"))
MULTIPLICATIONS = 2_000_000


def triples(low: int, high: int) -> st.SearchStrategy[Triple]:
    one = st.integers(low, high)
    return st.one_of(one.map(lambda value: (value,) * 3), st.tuples(one, one, one))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 4, 7]))
    ci, co = (groups * draw(st.one_of(st.integers(1, 4), st.integers(5, 40))) for _ in range(2))
    src = draw(st.one_of(triples(1, 6), st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 80))))
    k, s, d = draw(triples(1, 5)), draw(triples(1, 4)), draw(triples(1, 4))
    p = draw(triples(0, 6))
    op = draw(st.tuples(*(st.integers(0, max(pair) - 1) for pair in zip(s, d))))
    problem = Problem("fuzz", "", "", ci, co, src, k, draw(st.integers(0, 3)), s, p, op, d, groups)
    assume(min(problem.dst) > 0)
    assume(multiplications(problem) <= MULTIPLICATIONS)
    return problem


def multiplications(problem: Problem) -> int:
    src, weight = torch.empty(problem.src_shape, device="meta"), torch.empty(problem.weight_shape, device="meta")
    return src.numel() // problem.ci * weight.numel()


fuzz_settings: dict[str, Any] = {
    "max_examples": EXAMPLES or 200,
    "derandomize": EXAMPLES == 0,
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.filter_too_much, HealthCheck.too_slow],
}


@settings(**fuzz_settings)
@given(
    problem=problems(),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
    name=st.sampled_from(FORCED),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**31),
)
def test_fuzz(problem: Problem, dtype: torch.dtype, layout: str, name: str, threads: int, seed: int) -> None:
    inputs = integer_inputs(problem, seed)
    torch.set_num_threads(threads)
    with pytest.MonkeyPatch.context() as monkeypatch:
        force(monkeypatch, name)
        actual = tconv3d_ops(problem, inputs.cast(dtype, LAYOUTS[layout]))
    torch.set_num_threads(1)
    wrong = differences(actual, pytorch(problem, inputs))
    assert not wrong, "\n".join([f"{name} {dtype} {layout}", *wrong])
