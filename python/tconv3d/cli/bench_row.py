"""The GPU's time for a call among others, without the gaps that a host leaves."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from torch import Tensor

#: Calls in a row at least; the two events around them then count little.
_ROW = 32
_REPEATS = 15
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
