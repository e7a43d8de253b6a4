"""How `bench` and `demo` time: on a busy machine too, and with a warning there."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tconv3d.cli import load, timing


class Clock:
    """Goes on when a call says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def call(self, seconds: Iterator[float]) -> Callable[[], None]:
        def run() -> None:
            self.now += next(seconds)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timing, "time", made)
    return made


def test_a_load_that_meets_one_side_changes_nothing(clock: Clock) -> None:
    """Two of three calls of theirs wait half a second for a core: by medians it would be 500 times as slow."""
    ours, theirs = clock.call(cycle([1e-3])), clock.call(cycle([1e-3, 0.5, 0.5]))
    timed = timing.interleaved(ours, theirs, seconds=0.0, repeats=3)
    assert statistics.median(timed.theirs) == pytest.approx(500.0)
    assert timed.speed_up == pytest.approx(1.0)


def test_sides_alternate_until_the_time_has_passed(clock: Clock) -> None:
    order: list[str] = []

    def side(name: str) -> Callable[[], None]:
        advance = clock.call(cycle([0.1]))
        return lambda: (order.append(name), advance())[1]

    timed = timing.interleaved(side("ours"), side("theirs"), seconds=0.5, repeats=2, warm_up=0)
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert timed.ours == pytest.approx([100.0] * 3)


@pytest.mark.parametrize(
    ("others", "threads", "available", "warns"),
    [
        (0.1, 2, 2, False),  # what any machine has running
        (0.9, 2, 2, True),
        (0.9, 1, 2, False),  # there is a core for it
        (3.0, 16, 16, True),
        (0.7, 16, 16, False),
        (8.0, 4, 16, False),
    ],
)
def test_a_warning_where_cores_do_not_suffice(others: float, threads: int, available: int, warns: bool) -> None:
    assert load.are_too_few(available, threads, others) == warns


def test_the_load_of_others_is_told_before_and_after(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(load.OtherProcesses, "cores", lambda self: 1.5)
    monkeypatch.setattr(load, "cores", lambda: 2)
    with load.watched(threads=2):
        assert "2 threads are timed, and other processes have 1.5 of the 2 cores: the times" in capsys.readouterr().err
    assert "do not trust them" in capsys.readouterr().err


def test_only_other_processes_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> None:
    stat, ticks = tmp_path / "stat", os.sysconf("SC_CLK_TCK")

    def use(seconds: int) -> None:
        """Seconds of each kind on core 0, and more on one that this process may not use; idle time is none."""
        kinds = f"{ticks * seconds} 0 {ticks * seconds} 99999 99999 0 0 {ticks * seconds} 0 0"
        stat.write_text(f"cpu  1 2 3\ncpu0 {kinds}\ncpu1 9999 9999 9999 0 0 0 0 0 0 0\nintr 5\n")

    monkeypatch.setattr(load, "_STAT", stat)
    monkeypatch.setattr(load, "time", clock)
    monkeypatch.setattr(load.os, "sched_getaffinity", lambda process: {0})
    monkeypatch.setattr(load, "_own_seconds", lambda: clock.now)
    use(seconds=0)
    others = load.OtherProcesses()
    clock.now = 2.0
    use(seconds=1)
    assert others.cores() == pytest.approx((3 - 2) / 2)


def test_threads_and_children_are_own() -> None:
    own = load._own_seconds()
    loop = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", loop], check=True)
    assert load._own_seconds() - own > 0.25
