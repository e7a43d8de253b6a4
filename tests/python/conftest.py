from __future__ import annotations

import json

import pytest
import torch

import tconv3d  # noqa: F401  (loads the ops)

MACHINE = json.loads(torch.ops.tconv3d.machine())
ISAS = [isa["name"] for isa in MACHINE["isas"] if isa["available"]]
FORCED = ["reference", *ISAS]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="0/1", help="I/N: of every N tests the I-th, from 0 (tools/test-python cuts so)")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    index, count = map(int, config.getoption("--part").split("/"))
    config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place % count != index])
    items[:] = items[index::count]


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
