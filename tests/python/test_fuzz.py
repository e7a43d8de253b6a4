"""The first cases of `tools/fuzz`: random calls against PyTorch in double precision, exactly."""

from __future__ import annotations

import pytest

from conftest import FORCED
from fuzz_cases import draw
from fuzz_check import check

CASES, PARTS = 600, 6


@pytest.mark.parametrize("part", range(PARTS))
def test_fuzz(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCONV3D_IMPL", "")
    monkeypatch.setenv("TCONV3D_ISA", "")
    for number in range(part, CASES, PARTS):
        wrong = check(draw(1, number, tuple(FORCED)))
        assert not wrong, f"{wrong}\n(tools/fuzz --seed 1 --case {number})"


def test_a_case_follows_from_its_seed_and_number() -> None:
    first = draw(5, 17, tuple(FORCED))
    assert draw(5, 17, tuple(FORCED)) == first
    assert draw(6, 17, tuple(FORCED)) != first
    assert draw(5, 18, tuple(FORCED)) != first
