"""The GPU's results in every implementation × mode × layout × direction, over the problem files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

import cuda_cases
import problem_file
from cuda_cases import Outcome
from problem_file import Problem
from tconv3d import _library
from test_accuracy import NAMES

if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no CUDA GPU", allow_module_level=True)

CORRECTNESS = problem_file.read("correctness.txt")
ACCURACY = [problem for problem in CORRECTNESS if problem.name in NAMES]
BASELINES = problem_file.read("baselines.txt")
#: Each process has a context of its own; the largest baseline takes a few GiB in it.
WORKERS = min(12, os.cpu_count() or 1, max(1, torch.cuda.mem_get_info()[0] >> 33))

#: By the name of the test and of the problem.
Outcomes = dict[tuple[str, str], "Future[Outcome]"]

CHECKS = {
    "test_full_size": cuda_cases.check_full_size,
    "test_exact": cuda_cases.check_exact,
    "test_error_is_at_most_twice_pytorchs": cuda_cases.check_accuracy,
}


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """The work of all selected tests of this file, begun at once."""
    items = [item for item in request.session.items if item.module is request.module and item.originalname in CHECKS]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        yield {
            (item.originalname, problem.name): pool.submit(cuda_cases.run, CHECKS[item.originalname], problem)
            for item in items
            for problem in [item.callspec.params["problem"]]
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def outcome(outcomes: Outcomes, request: pytest.FixtureRequest, problem: Problem) -> Outcome:
    return outcomes[request.node.originalname, problem.name].result()


def require(outcome: Outcome, problem: Problem) -> None:
    assert not outcome.failures, "\n".join([f"{problem.text}  # {problem.why}", *outcome.failures])
    assert outcome.ran


def test_the_backend_is_usable() -> None:
    assert _library.cuda_failure() is None


@pytest.mark.parametrize("problem", BASELINES, ids=lambda problem: problem.name)
def test_full_size(problem: Problem, outcome: Outcome) -> None:
    require(outcome, problem)


@pytest.mark.parametrize("problem", CORRECTNESS, ids=lambda problem: problem.name)
def test_exact(problem: Problem, outcome: Outcome) -> None:
    require(outcome, problem)


@pytest.mark.parametrize("problem", ACCURACY, ids=lambda problem: problem.name)
def test_error_is_at_most_twice_pytorchs(problem: Problem, outcome: Outcome) -> None:
    require(outcome, problem)


def test_every_implementation_took_part(outcomes: Outcomes) -> None:
    """`direct` takes everything; each other one takes some of the problems, on the GPUs that all are made for."""
    exact = {name: future.result().ran for (test, name), future in outcomes.items() if test == "test_exact"}
    if len(exact) < len(CORRECTNESS):
        pytest.skip("only some of the problems were selected")
    for problem in CORRECTNESS:
        sampled = itertools.product(cuda_cases.sampled(problem), cuda_cases.DIRECTIONS)
        expected = {("direct", *combination, direction) for combination, direction in sampled}
        assert expected <= exact[problem.name], problem.name
    if torch.cuda.get_device_capability() == (9, 0):
        ran = set().union(*exact.values())
        assert {name for name, *_ in ran} == set(_library.cuda_machine()["implementations"])
        for combination in cuda_cases.COMBINATIONS:
            threads = itertools.product(["direct", "cells"], [combination], cuda_cases.DIRECTIONS)
            assert {(name, *combination, direction) for name, combination, direction in threads} <= ran
            for direction in ("fwd", "bwd_data"):
                if combination[0] != "f64":
                    assert {("stream", *combination, direction), ("mma", *combination, direction)} <= ran
                if combination[0] in ("tf32", "bf16", "f16"):
                    assert ("gather", *combination, direction) in ran


def test_a_difference_is_seen() -> None:
    want = torch.zeros(1, 2, 3)
    assert cuda_cases._difference(want + 1, want).startswith("6 of 6 differ")
    assert cuda_cases._difference(want[0], want).startswith("shape")


def test_tf32_rounding() -> None:
    values = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, 1 + 2**-12, -1 - 2**-11], dtype=torch.float64)
    expected = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-10, 1.0, -1 - 2**-10], dtype=torch.float64)
    assert torch.equal(cuda_cases.rounded_to_tf32(values), expected)
