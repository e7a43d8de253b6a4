"""Two functions timed side by side."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Milliseconds of each run of both sides, in the order they ran.

    Of each side the shortest run counts. Nothing makes a run shorter than the operator takes. But where another process
    takes a core away, a call that waits for all of its threads takes as long as the system likes: more often than not,
    and the longer the more often it waits. Medians would report that as the speed of one side.
    """

    ours: list[float]
    theirs: list[float]

    @property
    def ours_ms(self) -> float:
        return min(self.ours)

    @property
    def theirs_ms(self) -> float:
        return min(self.theirs)

    @property
    def speed_up(self) -> float:
        return self.theirs_ms / self.ours_ms


def interleaved(
    ours: Callable[[], object], theirs: Callable[[], object], seconds: float, repeats: int, warm_up: int = 1
) -> Timing:
    """Alternates both until each ran `repeats` times and `seconds` have passed; who goes first alternates too.

    Alternating gives a busy or throttled machine to both sides alike. The warm-up runs are not kept.
    """
    for _ in range(warm_up):
        ours()
        theirs()
    timing = Timing([], [])
    begin = time.perf_counter()
    while len(timing.ours) < repeats or time.perf_counter() - begin < seconds:
        sides = [(ours, timing.ours), (theirs, timing.theirs)]
        for call, times in sides if len(timing.ours) % 2 == 0 else reversed(sides):
            times.append(_milliseconds(call))
    return timing


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def _milliseconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3
