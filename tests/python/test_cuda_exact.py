"""The GPU's forward in every implementation × mode × layout, over the problem files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
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

Outcomes = dict[tuple[str, str], "Future[Outcome]"]


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Outcomes]:
    work: list[tuple[str, Callable[[Problem], Outcome], list[Problem]]] = [
        ("full size", cuda_cases.check_full_size, BASELINES),
        ("exact", cuda_cases.check_exact, CORRECTNESS),
        ("accuracy", cuda_cases.check_accuracy, ACCURACY),
    ]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        yield {(kind, problem.name): pool.submit(check, problem) for kind, check, all_ in work for problem in all_}
        pool.shutdown(cancel_futures=True)


def require(outcomes: Outcomes, kind: str, problem: Problem) -> None:
    outcome = outcomes[kind, problem.name].result()
    assert not outcome.failures, "\n".join([f"{problem.text}  # {problem.why}", *outcome.failures])
    assert outcome.ran


def test_the_backend_is_usable() -> None:
    assert _library.cuda_failure() is None


@pytest.mark.parametrize("problem", BASELINES, ids=lambda problem: problem.name)
def test_full_size(problem: Problem, outcomes: Outcomes) -> None:
    require(outcomes, "full size", problem)


@pytest.mark.parametrize("problem", CORRECTNESS, ids=lambda problem: problem.name)
def test_exact(problem: Problem, outcomes: Outcomes) -> None:
    require(outcomes, "exact", problem)


@pytest.mark.parametrize("problem", ACCURACY, ids=lambda problem: problem.name)
def test_error_is_at_most_twice_pytorchs(problem: Problem, outcomes: Outcomes) -> None:
    require(outcomes, "accuracy", problem)


def test_every_implementation_took_part(outcomes: Outcomes) -> None:
    """`direct` takes everything; the others take some problem at least on the GPUs they are made for."""
    exact = [outcomes["exact", problem.name].result().ran for problem in CORRECTNESS]
    everything = {("direct", *combination) for combination in cuda_cases.combinations()}
    assert all(everything <= ran for ran in exact)
    if torch.cuda.get_device_capability() == (9, 0):
        ran = {name for each in exact for name, _, _ in each}
        assert ran == set(_library.cuda_machine()["implementations"])


def test_a_difference_is_seen() -> None:
    want = torch.zeros(1, 2, 3)
    assert cuda_cases._difference(want + 1, want).startswith("6 of 6 differ")
    assert cuda_cases._difference(want[0], want).startswith("shape")


def test_tf32_rounding() -> None:
    values = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, 1 + 2**-12, -1 - 2**-11], dtype=torch.float64)
    expected = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-10, 1.0, -1 - 2**-10], dtype=torch.float64)
    assert torch.equal(cuda_cases.rounded_to_tf32(values), expected)
