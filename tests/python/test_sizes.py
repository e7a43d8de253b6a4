"""bench/sizes.py without a GPU: what it draws, and what it says of estimates."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import sizes

    yield sizes
    sys.modules.pop("sizes")


def options(**given) -> argparse.Namespace:
    return argparse.Namespace(
        **{
            "count": 2,
            "largest": 24,
            "seed": 1,
            "filter": "",
            "dtype": "bf16",
            "layout": "ndhwc",
            "gpu": "h200",
            **given,
        }
    )


def test_layers_are_drawn_at_the_same_sizes_for_a_seed(sizes) -> None:
    (layer,) = sizes.variants(options(filter="^same$"))
    drawn = sizes.draw(layer.problem, 20, 24, 1)
    assert drawn == sizes.draw(layer.problem, 20, 24, 1) != sizes.draw(layer.problem, 20, 24, 2)
    assert len({problem.src for problem in drawn}) > 15
    for problem in drawn:
        assert problem.dtype == "bf16"
        assert problem.layout == "ndhwc"
        assert 1 <= problem.batch <= 4
        assert all(4 <= extent <= 24 for extent in problem.src)


def test_every_mode_and_layout_has_every_layer(sizes) -> None:
    assert len(sizes.variants(options(dtype="tf32,bf16", layout="ncdhw,ndhwc"))) == 4 * len(sizes.variants(options()))


def test_estimates_stand_for_times_without_a_gpu(sizes) -> None:
    (layer,) = sizes.variants(options(filter="^same$"))
    for setting in sizes.SETTINGS:
        for problem in sizes.draw(layer.problem, 3, 24, 1):
            assert 0 < sizes.milliseconds(problem, setting, options()) < 10


def test_the_summary_has_a_line_for_each_layer_and_one_for_all(sizes) -> None:
    times = {"one": [1.0, 2.0], "any": [2.0, 1.0]}
    row = sizes.Row("same", "bf16", "ndhwc", ["a", "b"], {"one": 6, "any": 3}, times)
    header, _, *values = sizes.summary([row]).splitlines()
    assert header.split()[:3] == ["layer", "mode", "layout"]
    assert [value.split()[-2:] for value in values] == [["1.000", "2.00"]] * 2
