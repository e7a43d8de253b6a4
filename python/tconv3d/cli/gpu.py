"""What a GPU is, what it can do at best, and how long it takes for a call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..problem import DTYPES
from .machine import Rates
from .modes import MODES, switch_tf32

#: Keeps the GPU busy for a fraction of a millisecond, in which the host queues the timed call and its events.
_HEAD_START_CYCLES = 1_000_000
#: The L2 cache of the largest GPUs, where PyTorch does not tell.
_L2_BYTES = 64 << 20


@dataclass(frozen=True)
class Measured:
    """One call, warm: the GPU's time, the host's time until the call returns, and what it costs beside the output."""

    ms: float
    runs_ms: list[float]
    call_us: float
    first_ms: float
    extra_bytes: int


def require_gpu() -> None:
    if not torch.cuda.is_available():
        raise RuntimeError(f"PyTorch {torch.__version__} sees no CUDA GPU on this machine")


def measure_gpu_rates(mode: str, extent: int = 8192, copy_bytes: int = 1 << 30) -> Rates:
    """The ceilings of a mode: a large matmul and a large copy, both by PyTorch."""
    switch_tf32(mode)
    dtype = DTYPES[MODES[mode][0]]
    a, b = (torch.randn(extent, extent, device="cuda").to(dtype) for _ in range(2))
    src, dst = (torch.empty(copy_bytes, dtype=torch.uint8, device="cuda") for _ in range(2))
    return Rates(
        matmul_gflops=2 * extent**3 / min(_times_ms(lambda: torch.mm(a, b))) * 1e-6,
        copy_gbytes=2 * copy_bytes / min(_times_ms(lambda: dst.copy_(src))) * 1e-6,
    )


def sets_past_l2(bytes_moved: float) -> int:
    """How many sets of tensors must take turns so that none is in the L2 cache when it is used again."""
    l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", _L2_BYTES)
    return int(min(max(2, 3 * l2 // bytes_moved + 1), 64))


def measure(call: Callable[[int], Tensor], sets: int, seconds: float, repeats: int) -> Measured:
    """`call(i)` computes on set i of `sets`. The outputs are kept as long, so that they take turns too."""
    outputs: list[Tensor | None] = [None] * sets

    def turn(index: int) -> None:
        outputs[index % sets] = call(index % sets)

    torch.cuda.synchronize()
    begin = time.perf_counter()
    turn(0)
    torch.cuda.synchronize()
    first_ms = (time.perf_counter() - begin) * 1e3
    for index in range(sets):
        turn(index)
    times, calls = _sample(turn, seconds, repeats)
    outputs.clear()
    return Measured(statistics.median(times), times, statistics.median(calls), first_ms, _extra_bytes(call))


def _sample(turn: Callable[[int], object], seconds: float, repeats: int) -> tuple[list[float], list[float]]:
    times: list[float] = []
    calls: list[float] = []
    begin = time.perf_counter()
    while len(times) < repeats or time.perf_counter() - begin < seconds:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda._sleep(_HEAD_START_CYCLES)  # type: ignore[no-untyped-call]
        start.record()
        before = time.perf_counter()
        turn(len(times))
        calls.append((time.perf_counter() - before) * 1e6)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return times, calls


def _extra_bytes(call: Callable[[int], Tensor]) -> int:
    """The most that was allocated during a call, less what is left of it: the output."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    dst = call(0)
    kept = torch.cuda.memory_allocated()
    del dst
    return torch.cuda.max_memory_allocated() - kept


def _times_ms(call: Callable[[], object], repeats: int = 10) -> list[float]:
    call()
    return _sample(lambda index: call(), 0.0, repeats)[0]
