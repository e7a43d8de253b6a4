"""What the machine is and how fast it multiplies and copies: the two ceilings of a roofline."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ..problem import DTYPES, Problem


@dataclass(frozen=True)
class Rates:
    """Measured ceilings of this machine."""

    matmul_gflops: float
    copy_gbytes: float

    def floor_ms(self, flops: float, bytes_moved: float) -> float:
        """The least time for this much arithmetic and data, when they overlap."""
        return max(flops / self.matmul_gflops, bytes_moved / self.copy_gbytes) * 1e-6


def measure_rates(dtype: str) -> Rates:
    """Large enough to leave the caches (copy) and to hide the start (matmul), yet done in a fraction of a second."""
    # Halves can always be multiplied in fp32, so a machine without instructions for them keeps that ceiling.
    types = {dtype, "f32"} if dtype in ("bf16", "f16") else {dtype}
    count = 1 << 26
    src, dst = torch.zeros(count), torch.zeros(count)
    return Rates(
        matmul_gflops=max(_matmul_gflops(DTYPES[each]) for each in types),
        copy_gbytes=2 * count * src.element_size() / _best_seconds(lambda: dst.copy_(src)) * 1e-9,
    )


def roofline(problem: Problem, rates: Rates, what: str) -> str:
    """The floor of the problem in words; `what` the rates were measured of."""
    facts = problem.facts()
    flops, bytes_moved = float(facts["flops"]), float(facts["bytes"])
    arithmetic, traffic = flops / rates.matmul_gflops * 1e-6, bytes_moved / rates.copy_gbytes * 1e-6
    bound = "arithmetic" if arithmetic >= traffic else "memory"
    return (
        f"roofline of this machine ({what}):\n"
        f"  matmul {rates.matmul_gflops:.0f} GFLOP/s, copy {rates.copy_gbytes:.1f} GB/s (measured now)\n"
        f"  {flops * 1e-9:.3f} GFLOP take {arithmetic:.3f} ms, {bytes_moved * 1e-6:.1f} MB take {traffic:.3f} ms\n"
        f"  floor {max(arithmetic, traffic):.3f} ms, bound by {bound}"
    )


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8").splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _matmul_gflops(dtype: torch.dtype, extent: int = 1536) -> float:
    a, b = (torch.randn(extent, extent).to(dtype) for _ in range(2))
    return 2 * extent**3 / _best_seconds(lambda: torch.mm(a, b)) * 1e-9


def _best_seconds(call: Callable[[], object]) -> float:
    """The best of five, or of one when that takes a second (a type the machine has no instructions for)."""
    times: list[float] = []
    while len(times) < 5 and sum(times) < 1.0:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)
