"""The numbers of a benchmark on a GPU, as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from .. import _library
from .machine import Rates
from .results import geometric_means, versions
from .table import table
from .timing import geometric_mean

#: What a process measured for one problem: the fields of `gpu.Measured`, `device_us` of a short problem, and of tconv3d
#: its `calls_us` beside PyTorch's, `error`, `agrees`, `implementation` and `description`; or `failed` with the reason.
Answer = dict[str, Any]

#: Problems whose floor is shorter are launches more than work, and left out of the mean over floors.
_LEAST_FLOOR_MS = 0.02


@dataclass(frozen=True)
class Row:
    """One problem in one direction, mode and layout."""

    name: str
    problem: str
    direction: str
    mode: str
    layout: str
    floor_ms: float
    gflop: float
    mbytes: float
    error: float
    agrees: bool
    #: The answers of `default`, `tuned ncdhw`, `tuned ndhwc` and `tconv3d`; of the last one alone if it was asked for.
    sides: dict[str, Answer]

    @property
    def kind(self) -> str:
        direction = "" if self.direction == "fwd" else f"{self.direction} "
        return f"{direction}{self.mode} {self.layout}"

    def ms(self, side: str) -> float:
        """Infinite where the side could not compute it, NaN where there is no such side."""
        return float(self.sides[side].get("ms", "inf")) if side in self.sides else math.nan

    @property
    def best(self) -> str:
        """PyTorch's fastest side; empty where there is none."""
        return min((side for side in self.sides if side != "tconv3d"), key=self.ms, default="")

    def extra_mib(self, side: str) -> float:
        return float(self.sides.get(side, {}).get("extra_bytes", "nan")) / 2**20

    def call_us(self, side: str) -> float:
        """As measured in turns."""
        return float(self.sides["tconv3d"].get("calls_us", {}).get(side, "nan"))

    @property
    def implementation(self) -> str:
        return str(self.sides["tconv3d"].get("implementation", "none"))

    def device_us(self, side: str) -> str:
        """Only short problems are timed so."""
        measured = self.sides.get(side, {}).get("device_us")
        return "" if measured is None else f"{measured:.1f}"


@dataclass(frozen=True)
class Bar:
    name: str
    kind: str
    speed_up: float


def bars(rows: list[Row]) -> list[Bar]:
    """Two for each row that both sides could compute: over PyTorch as it comes, and over the best it can be made."""
    speed_ups = (
        Bar(row.name, f"{row.kind}, {over} PyTorch", row.ms(side) / row.ms("tconv3d"))
        for over in ("default", "best")
        for row in rows
        for side in ["default" if over == "default" else row.best]
    )
    return [bar for bar in speed_ups if 0 < bar.speed_up < math.inf]


def summary(rows: list[Row], rates: dict[str, Rates]) -> str:
    header = ["problem", "mode", "default ms", "best ms", "tconv3d ms", "floor ms", "TFLOP/s", "GB/s", "× floor"]
    header += ["best × floor", "default/ours", "best/ours", "extra MiB", "best's", "call µs", "default's"]
    header += ["device µs", "best's", "implementation"]
    lines = [table(*_filled(header, [_cells(row) for row in rows])), ""]
    lines += [f"geometric mean, {kind}: {mean:.2f}×" for kind, mean in geometric_means(bars(rows)).items()]
    lines += [_over_floors(kind, rows) for kind in dict.fromkeys(row.kind for row in rows)]
    lines += [
        f"ceilings, {mode}: matmul {rate.matmul_gflops * 1e-3:.1f} TFLOP/s, copy {rate.copy_gbytes * 1e-3:.2f} TB/s"
        for mode, rate in rates.items()
    ]
    return "\n".join([*lines, _machine()])


def results(rows: list[Row], rates: dict[str, Rates]) -> dict[str, Any]:
    """Everything that was measured, and what it was measured with."""
    return {
        **versions(),
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "cudnn": _cudnn(),
        "driver": _library.cuda_machine()["driver"]["version"],
        "ceilings": {mode: asdict(rate) for mode, rate in rates.items()},
        "geometric_means": geometric_means(bars(rows)),
        "rows": [{**asdict(row), "best": row.best} for row in rows],
    }


def _over_floors(kind: str, rows: list[Row]) -> str:
    large = [row for row in rows if row.kind == kind and row.floor_ms >= _LEAST_FLOOR_MS]
    means = {
        "tconv3d": [row.ms("tconv3d") / row.floor_ms for row in large],
        "best PyTorch": [row.ms(row.best) / row.floor_ms for row in large],
    }
    means = {who: [ratio for ratio in ratios if not math.isnan(ratio)] for who, ratios in means.items()}
    said = ", ".join(f"{who} {geometric_mean(ratios):.2f}×" for who, ratios in means.items() if ratios)
    return f"geometric mean over floors of at least {_LEAST_FLOOR_MS} ms, {kind} ({len(large)}): {said or 'none'}"


def _filled(header: list[str], cells: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Without the columns of sides that were not measured."""
    kept = [i for i in range(len(header)) if any(row[i].rstrip("×") not in ("", "nan") for row in cells)]
    return [header[i] for i in kept], [[row[i] for i in kept] for row in cells]


def _cells(row: Row) -> list[str]:
    ours, best, default = row.ms("tconv3d"), row.ms(row.best), row.ms("default")
    return [
        row.name,
        row.kind,
        *(f"{ms:.3f}" for ms in (default, best, ours, row.floor_ms)),
        f"{row.gflop / ours:.1f}",
        f"{row.mbytes / ours:.0f}",
        *(f"{ms / row.floor_ms:.2f}×" for ms in (ours, best)),
        *(f"{ms / ours:.2f}×" for ms in (default, best)),
        *(f"{row.extra_mib(side):.1f}" for side in ("tconv3d", row.best)),
        *(f"{row.call_us(side):.0f}" for side in ("tconv3d", "default")),
        *(row.device_us(side) for side in ("tconv3d", row.best)),
        row.implementation,
    ]


def _machine() -> str:
    return f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {_cudnn()}"


def _cudnn() -> int | None:
    return torch.backends.cudnn.version()  # type: ignore[no-untyped-call, no-any-return]
