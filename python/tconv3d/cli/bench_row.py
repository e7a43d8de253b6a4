"""Calls among others: the GPU's time for one without the gaps that a host leaves, and the host's beside PyTorch's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

#: Calls in a row at least; the two events around them then count little.
_ROW = 32
_REPEATS = 15
#: Calls of each side whose time on the host is taken: so many, or fewer where they take that long.
_TURNS = 25
_TURNS_SECONDS = 0.2
#: No GPU has a higher clock; with a lower one the head start is longer.
_CYCLES_PER_US = 3_000


def device_us(call: Callable[[int], Tensor], sets: int, call_us: float) -> float:
    """Microseconds of `call(i)`, each of which the host queues in `call_us`, in a row over the `sets`.

    The GPU is kept busy for twice the time that queueing all of them takes, so that none begins before the last is
    queued. Warm calls only.
    """
    outputs: list[Tensor | None] = [None] * sets
    calls = max(_ROW, sets)
    times: list[float] = []
    for _ in range(_REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(int(2 * calls * call_us * _CYCLES_PER_US))  # type: ignore[no-untyped-call]
        start.record()
        for index in range(calls):
            outputs[index % sets] = call(index % sets)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times)


def calls_us(calls: dict[str, Callable[[int], Tensor]], sets: int) -> dict[str, float]:
    """Microseconds until `call(i)` of each returns to Python, in turns in this one process.

    They differ between processes by more than between sides. The GPU is idle when a call begins.
    """
    times: dict[str, list[float]] = {side: [] for side in calls}
    for call in calls.values():
        call(0)
    end = time.perf_counter() + _TURNS_SECONDS
    for turn in range(_TURNS):
        if turn > 0 and time.perf_counter() > end:
            break
        for side, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            dst = call(turn % sets)
            times[side].append((time.perf_counter() - begin) * 1e6)
            del dst
    return {side: statistics.median(taken) for side, taken in times.items()}
