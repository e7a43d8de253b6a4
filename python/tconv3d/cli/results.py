"""The numbers of a benchmark, as a table and as JSON."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import torch

from .. import __version__, _library
from .machine import Rates, cores, cpu_model
from .table import table
from .timing import geometric_mean


@dataclass(frozen=True)
class Row:
    """One problem in one direction."""

    name: str
    problem: str
    direction: str
    dtype: str
    layout: str
    torch_ms: float
    tconv3d_ms: float
    floor_ms: float
    gflop: float
    mbytes: float
    error: float
    agrees: bool
    runs_ms: dict[str, list[float]]

    @property
    def kind(self) -> str:
        return f"{self.direction} {self.dtype} {self.layout}"

    @property
    def speed_up(self) -> float:
        return self.torch_ms / self.tconv3d_ms

    def line(self) -> str:
        verdict = "" if self.agrees else f"  WRONG by {self.error:.1e}"
        return (
            f"{self.name:<22} {self.kind:<22} PyTorch {self.torch_ms:9.3f} ms  tconv3d {self.tconv3d_ms:9.3f} ms"
            f"  {self.speed_up:6.2f}×{verdict}"
        )


def summary(rows: list[Row], rates: dict[str, Rates]) -> str:
    """The table, the geometric means of each direction and the machine they hold for."""
    header = ["problem", "direction", "PyTorch ms", "tconv3d ms", "speed-up", "GFLOP/s", "× floor"]
    body = [
        [
            row.name,
            row.kind,
            f"{row.torch_ms:.3f}",
            f"{row.tconv3d_ms:.3f}",
            f"{row.speed_up:.2f}×",
            f"{row.gflop / row.tconv3d_ms * 1e3:.1f}",
            f"{row.tconv3d_ms / row.floor_ms:.1f}×",
        ]
        for row in rows
    ]
    means = [
        f"geometric mean, {kind}: {mean:.2f}× PyTorch (worst {min(row.speed_up for row in _of(rows, kind)):.2f}×)"
        for kind, mean in geometric_means(rows).items()
    ]
    ceilings = [
        f"ceilings, {dtype}: matmul {rate.matmul_gflops:.0f} GFLOP/s, copy {rate.copy_gbytes:.1f} GB/s"
        for dtype, rate in rates.items()
    ]
    machine = f"{cpu_model()}, {cores()} cores, {torch.get_num_threads()} threads, PyTorch {torch.__version__}"
    return "\n".join([table(header, body), "", *means, *ceilings, machine])


def geometric_means(rows: list[Row]) -> dict[str, float]:
    kinds = dict.fromkeys(row.kind for row in rows)
    return {kind: geometric_mean(row.speed_up for row in _of(rows, kind)) for kind in kinds}


def results(rows: list[Row], rates: dict[str, Rates]) -> dict[str, Any]:
    """Everything that was measured, and what it was measured with."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "tconv3d": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "isa": _library.machine()["isa"],
        "ceilings": {dtype: asdict(rate) for dtype, rate in rates.items()},
        "geometric_means": geometric_means(rows),
        "rows": [{**asdict(row), "speed_up": row.speed_up} for row in rows],
    }


def _of(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row.kind == kind]
