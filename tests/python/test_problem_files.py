"""The problem files keep their promises, and the library reads them as the tests do."""

from __future__ import annotations

import json
from dataclasses import astuple

import pytest
import torch

import problem_file
from test_docs import load_tool

FILES = ["baselines.txt", "correctness.txt", "wild.txt"]


def test_correctness_has_at_least_150_problems() -> None:
    assert len(problem_file.read("correctness.txt")) >= 150


def test_baselines_has_all_23_problems() -> None:
    assert len(problem_file.read("baselines.txt")) == 23


def test_the_wild_file_is_what_its_tool_draws() -> None:
    tool = load_tool("wild-problems")
    assert tool.FILE.read_text(encoding="utf-8") == tool.file_text(tool.SEED, tool.COUNT), (
        "run tools/wild-problems --write"
    )
    assert tool.file_text(2, 50) != tool.file_text(3, 50)


def test_wild_problems_are_many_kinds_and_none_is_a_baseline() -> None:
    wild = problem_file.read("wild.txt")
    assert len(wild) >= 200
    baselines = {astuple(problem)[3:] for problem in problem_file.read("baselines.txt")}
    assert not [problem.name for problem in wild if astuple(problem)[3:] in baselines]
    assert {extent for problem in wild for extent in problem.k} == set(range(1, 8))
    assert {stride for problem in wild for stride in problem.s} == {1, 2, 3, 4}
    assert any(problem.d != (1, 1, 1) for problem in wild)
    assert any(1 < problem.g < problem.ci for problem in wild)
    assert any(problem.g == problem.ci > 1 for problem in wild)
    assert {1, 16} <= {problem.n for problem in wild} <= set(range(1, 17))
    assert any(extent % 2 == 1 for problem in wild for extent in problem.src)


def test_wild_problems_fit_a_gpu() -> None:
    for problem in problem_file.read("wild.txt"):
        facts = json.loads(torch.ops.tconv3d.problem_facts(problem.text))
        assert facts["flops"] <= 200e9, problem.name
        assert facts["bytes"] <= 4e9, problem.name
        assert max(problem.src) <= 256, problem.name
        assert max(problem.ci, problem.co) <= 1024, problem.name


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
