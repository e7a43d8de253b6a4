"""How much of the machine other processes use: what is timed beside them is slow and uneven."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .machine import cores

_STAT = Path("/proc/stat")
#: Of a line of /proc/stat: user, nice, system, irq, softirq and steal, which is what the host gives to other guests.
_BUSY = (1, 2, 3, 6, 7, 8)
#: How long the machine is watched before anything is timed.
_WATCHED_SECONDS = 0.3


class OtherProcesses:
    """Counts from its making on, over the cores that this process may use."""

    def __init__(self) -> None:
        self._begin, self._busy, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def cores(self) -> float:
        """How many cores they have used on average; 0 where the system does not tell."""
        busy, own = _busy_seconds() - self._busy, _own_seconds() - self._own
        return max(busy - own, 0.0) / (time.perf_counter() - self._begin)


@contextmanager
def watched(threads: int) -> Iterator[None]:
    """Warns, before and after what is timed with this many threads, of processes that take cores from it."""
    before = OtherProcesses()
    time.sleep(_WATCHED_SECONDS)
    _warn(before.cores(), threads, "have {:.1f} of the {} cores: the times will be long and uneven")
    during = OtherProcesses()
    yield
    _warn(during.cores(), threads, "had {:.1f} of the {} cores while the times above were taken: do not trust them")


def are_too_few(available: int, threads: int, others: float) -> bool:
    """Whether the cores do not suffice for all, beyond what any idle machine has running."""
    unnoticed = max(0.25, 0.05 * available)
    return others > unnoticed and others + threads > available + unnoticed


def _warn(others: float, threads: int, what: str) -> None:
    available = cores()
    if are_too_few(available, threads, others):
        print(
            f"warning: {threads} threads are timed, and other processes {what.format(others, available)}",
            file=sys.stderr,
        )


def _busy_seconds() -> float:
    if not _STAT.exists():
        return 0.0
    allowed = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in _STAT.read_text(encoding="ascii").splitlines() if line.startswith("cpu")]
    ticks = sum(int(line[field]) for line in lines if line[0] in allowed for field in _BUSY)
    return ticks / float(os.sysconf("SC_CLK_TCK"))


def _own_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
