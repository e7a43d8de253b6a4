"""The numbers of a benchmark, as a table and as JSON."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import torch

from .. import __version__, _library
from .machine import Rates, cores, cpu_model
from .table import table
from .timing import geometric_mean


def timestamp() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


class Bar(Protocol):
    """What a mean needs of a row."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def speed_up(self) -> float: ...


class Checked(Protocol):
    """What a report of wrong results needs of a row."""

    @property
    def name(self) -> str: ...
    @property
    def problem(self) -> str: ...
    @property
    def error(self) -> float: ...
    @property
    def agrees(self) -> bool: ...


@dataclass(frozen=True)
class Row:
    """One problem in one direction on the CPU."""

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


def geometric_means(rows: Sequence[Bar]) -> dict[str, float]:
    kinds = dict.fromkeys(row.kind for row in rows)
    return {kind: geometric_mean(row.speed_up for row in _of(rows, kind)) for kind in kinds}


def versions() -> dict[str, str]:
    """What was measured, and when."""
    return {
        "date": timestamp(),
        "tconv3d": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def results(rows: list[Row], rates: dict[str, Rates]) -> dict[str, Any]:
    """Everything that was measured, and what it was measured with."""
    return {
        **versions(),
        "cpu": cpu_model(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "isa": _library.machine()["isa"],
        "ceilings": {dtype: asdict(rate) for dtype, rate in rates.items()},
        "geometric_means": geometric_means(rows),
        "rows": [{**asdict(row), "speed_up": row.speed_up} for row in rows],
    }


def write_json(data: dict[str, Any], path: Path) -> None:
    """Numbers have six digits, and a list of them one line: there may be a thousand runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_rounded(data), indent=1)
    text = re.sub(r"\[[^\[\]{}\"]*\]", lambda numbers: " ".join(numbers[0].split()), text)
    path.write_text(text + "\n", encoding="utf-8")


def _rounded(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _rounded(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_rounded(value) for value in data]
    return float(f"{data:.6g}") if isinstance(data, float) else data


def report_wrong(rows: Sequence[Checked]) -> int:
    """Names the rows that differ from PyTorch; the exit status of the command."""
    wrong = [row for row in rows if not row.agrees]
    for row in wrong:
        print(f"WRONG: {row.name}: {row.problem}: differs from PyTorch by {row.error:.1e}", file=sys.stderr)
    return 1 if wrong else 0


def _of(rows: Sequence[Bar], kind: str) -> list[Bar]:
    return [row for row in rows if row.kind == kind]
