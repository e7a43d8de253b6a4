from __future__ import annotations

import json
import re
from typing import Any

import pytest
import torch

import tconv3d  # noqa: F401  (loads the ops)

MACHINE = json.loads(torch.ops.tconv3d.machine())
ISAS = [isa["name"] for isa in MACHINE["isas"] if isa["available"]]
FORCED = ["reference", *ISAS]


#: The files with the longest tests: these begin first, so that no process is left alone with one of them at the end.
LONGEST = ("test_cuda_exact", "test_cuda", "test_compile", "test_export", "test_mistakes", "test_cli", "test_fuzz")

#: Tests that run in one process, by the beginning of a name: those that use a GPU, so that it serves two processes at a
#: time (test_cuda_exact.py starts more by itself), and those that would prepare the same thing twice.
ONE_PROCESS = {
    r".*/test_cuda_exact\.py": "exact on a GPU",
    r".*/test_cuda\w*\.py": "on a GPU",
    r".*/test_cli\.py::test_bench": "results of one benchmark",
    r".*/test_examples\.py": "examples that are built once",
    r".*/test_compile\.py::.*\binductor\b": "headers that inductor compiles",
    r".*/test_export\.py::test_saved": "headers that inductor compiles",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {stem: place for place, stem in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each process takes the next test, or group of tests, when it is done with its last ones."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            groups = (group for pattern, group in ONE_PROCESS.items() if re.match(pattern, nodeid))
            return next(groups, nodeid)

    return Scheduling(config, log)


def pytest_report_header() -> list[str]:
    absent = [f"{isa['name']} ({isa['why']})" for isa in MACHINE["isas"] if not isa["available"]]
    return [f"tconv3d on: {', '.join(FORCED)}; not on: {', '.join(absent) or 'none'}"]


def force(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The library reads both variables on each call."""
    if name == "reference":
        monkeypatch.setenv("TCONV3D_IMPL", "reference")
    else:
        monkeypatch.setenv("TCONV3D_ISA", name)


@pytest.fixture(params=FORCED)
def forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with the double reference and with each instruction set of this machine."""
    force(monkeypatch, request.param)
    return request.param


@pytest.fixture(autouse=True)
def same_start() -> None:
    """Each test has the same random numbers, and one thread unless it asks for more: its problems are tiny."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
