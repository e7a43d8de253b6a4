"""The problem files keep their promises, and the library reads them as the tests do."""

from __future__ import annotations

import json
from dataclasses import astuple

import pytest
import torch

import problem_file

FILES = ["baselines.txt", "correctness.txt"]


def test_correctness_has_at_least_150_problems() -> None:
    assert len(problem_file.read("correctness.txt")) >= 150


def test_baselines_has_all_23_problems() -> None:
    assert len(problem_file.read("baselines.txt")) == 23


@pytest.mark.parametrize("file", FILES)
def test_names_are_unique(file: str) -> None:
    names = [problem.name for problem in problem_file.read(file)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("file", FILES)
def test_no_problem_twice(file: str) -> None:
    seen: dict[tuple, str] = {}
    for problem in problem_file.read(file):
        key = astuple(problem)[3:]
        assert key not in seen, f"{problem.name} is the same problem as {seen[key]}"
        seen[key] = problem.name


@pytest.mark.parametrize("file", FILES)
def test_each_problem_has_a_reason(file: str) -> None:
    assert all(len(problem.why) > 4 for problem in problem_file.read(file))


@pytest.mark.parametrize("file", FILES)
def test_the_library_reads_each_problem(file: str) -> None:
    for problem in problem_file.read(file):
        facts = json.loads(torch.ops.tconv3d.problem_facts(problem.text))
        assert tuple(facts["dst"]) == problem.dst, problem.name
        again = json.loads(torch.ops.tconv3d.problem_facts(facts["problem"]))
        assert again == facts, f"{problem.name} does not read back from {facts['problem']!r}"


@pytest.mark.parametrize("line", ["no colon k3 # why", "name: n1 ci1 co1 1x1x1 k1", "name: n1 ci1 co1 1x1 k1   # why"])
def test_a_malformed_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"problem|word"):
        problem_file.parse(line)
