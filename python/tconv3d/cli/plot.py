"""The speed-ups of a benchmark as a picture: each is a bar from 1×, which points left where tconv3d is slower."""

# Only the standard library: tools/bench_table loads this file where PyTorch is not installed.
from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: More panels would be too narrow to read.
_MOST_PANELS = {"cpu": 3, "gpu": 2}
_LAYOUTS = {"ncdhw": "NCDHW", "ndhwc": "channels_last_3d"}
#: Where a logarithmic axis may have a tick.
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_AXIS = "Speed-up of tconv3d, logarithmic. A bar begins at 1×, the same time; where tconv3d is slower it points left."
#: Inches for the names of the problems.
_LEFT = 1.85
_INK, _GREY, _GRID = "#222222", "#666666", "#dddddd"


@dataclass(frozen=True)
class Series:
    """Bars of one kind: what tconv3d is compared with, and the speed-up of each problem."""

    label: str
    speed_ups: dict[str, float]
    faster: str
    slower: str

    def colour(self, name: str) -> str:
        return self.faster if self.speed_ups[name] >= 1 else self.slower


@dataclass(frozen=True)
class Panel:
    title: str
    series: tuple[Series, ...]


def save_plot(data: dict[str, Any], path: Path) -> None:
    """Draws what `results` made, or a file of it; without matplotlib it says so and goes on."""
    try:
        figure = draw(data)
    except ImportError:
        print("no plot: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def draw(data: dict[str, Any]) -> Any:
    """The matplotlib figure."""
    from matplotlib.figure import Figure

    panels = panels_of(data)
    names = _ordered(panels[0])
    bars = len(panels[0].series)
    figure = Figure(figsize=(max(9.1, 3.1 + 3.0 * len(panels)), 1.8 + len(names) * (0.12 + 0.15 * bars)))
    inch = 1 / figure.get_figheight()
    top, bottom = 1 - (0.92 + 0.14 * bars) * inch, 0.62 * inch
    figure.subplots_adjust(left=_LEFT / figure.get_figwidth(), right=0.97, top=top, bottom=bottom, wspace=0.08)
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(all_axes, panels):
        _draw_bars(axes, panel, names)
        _title_panel(axes, panel)
    _set_limits(all_axes, panels)
    _label(figure, data, panels[0], inch)
    return figure


def panels_of(data: dict[str, Any]) -> list[Panel]:
    """A panel for each direction on the CPU; for the first directions and modes of the first layout on the GPU."""
    return _gpu_panels(data["rows"]) if "gpu" in data else _cpu_panels(data["rows"])


def _cpu_panels(rows: list[dict[str, Any]]) -> list[Panel]:
    kinds = list(dict.fromkeys((row["direction"], row["dtype"], row["layout"]) for row in rows))
    panels = []
    for kind in kinds[: _MOST_PANELS["cpu"]]:
        chosen = [row for row in rows if (row["direction"], row["dtype"], row["layout"]) == kind]
        speed_ups = {row["name"]: float(row["speed_up"]) for row in chosen}
        direction, dtype, layout = kind
        panels.append(Panel(f"{direction}, {dtype}, {_LAYOUTS[layout]}", (_over("PyTorch", speed_ups),)))
    return panels


def _gpu_panels(rows: list[dict[str, Any]]) -> list[Panel]:
    first = rows[0]["layout"]
    kinds = list(dict.fromkeys((_direction(row), row["mode"]) for row in rows if row["layout"] == first))
    panels = []
    for direction, mode in kinds[: _MOST_PANELS["gpu"]]:
        kind = (direction, mode, first)
        chosen = [row for row in rows if (_direction(row), row["mode"], row["layout"]) == kind]
        best = _over("the best PyTorch", {row["name"]: _ratio(row, row["best"]) for row in chosen})
        default = _over("PyTorch as it comes", {row["name"]: _ratio(row, "default") for row in chosen}, pale=True)
        name = mode if direction == "fwd" else f"{direction}, {mode}"
        panels.append(Panel(f"{name}, {_LAYOUTS[first]}", (best, default)))
    return panels


def _direction(row: dict[str, Any]) -> str:
    """Rows of the GPU have told their direction only since there are others than fwd."""
    return str(row.get("direction", "fwd"))


def _over(label: str, speed_ups: dict[str, float], pale: bool = False) -> Series:
    """A side that failed has no bar."""
    drawn = {name: value for name, value in speed_ups.items() if 0 < value < math.inf}
    colours = ("#a9c9e8", "#f3c6ae") if pale else ("#2a6099", "#d2622a")
    return Series(label, drawn, *colours)


def _ratio(row: dict[str, Any], side: str) -> float:
    theirs, ours = (float(row["sides"][each].get("ms", math.inf)) for each in (side, "tconv3d"))
    return theirs / ours


def _ordered(panel: Panel) -> list[str]:
    """The largest gain of the first panel on top."""
    speed_ups = panel.series[0].speed_ups
    names = dict.fromkeys(name for series in panel.series for name in series.speed_ups)
    return sorted(names, key=lambda name: -speed_ups.get(name, 0.0))


def _draw_bars(axes: Any, panel: Panel, names: list[str]) -> None:
    height = 0.8 / len(panel.series)
    for index, series in enumerate(panel.series):
        for place, name in enumerate(names):
            if name not in series.speed_ups:
                continue
            value = series.speed_ups[name]
            middle = place + (index - (len(panel.series) - 1) / 2) * height
            axes.barh(middle, value - 1, height * 0.92, left=1, color=series.colour(name), zorder=2)
            axes.annotate(
                f"{value:.2f}×" if value < 10 else f"{value:.0f}×",
                (value, middle),
                xytext=(3 if value >= 1 else -3, 0),
                textcoords="offset points",
                ha="left" if value >= 1 else "right",
                va="center_baseline",
                fontsize=7,
                color=_INK if index == 0 else _GREY,
                # Keeps the grid out of the digits.
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
            )
    axes.set_yticks(range(len(names)), names, fontsize=8.5, color=_INK)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _title_panel(axes: Any, panel: Panel) -> None:
    """The title with the means below it."""
    means = [f"geometric mean {_mean(series.speed_ups.values()):.2f}× {series.label}" for series in panel.series]
    place = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate("\n".join(means), (0, 1), xytext=(0, 5), fontsize=8, color=_GREY, **place)
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold", color=_INK, pad=6 + 11 * len(means))


def _set_limits(all_axes: Any, panels: list[Panel]) -> None:
    """The same for all panels, with room for the numbers at the ends of the bars."""
    values = [value for panel in panels for series in panel.series for value in series.speed_ups.values()]
    low, high = min([*values, 0.8]), max([*values, 1.25])
    room = (high / low) ** 0.15
    low, high = low / (room if low < 0.8 else 1.0), high * room
    for axes in all_axes:
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        ticks = [tick for tick in _TICKS if low <= tick <= high]
        axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks], fontsize=8, color=_GREY)
        axes.minorticks_off()
        axes.tick_params(length=0)
        axes.grid(axis="x", color=_GRID, linewidth=0.7, zorder=0)
        axes.axvline(1.0, color=_INK, linewidth=1, zorder=3)
        for side in ("top", "right", "bottom", "left"):
            axes.spines[side].set_visible(False)


def _label(figure: Any, data: dict[str, Any], panel: Panel, inch: float) -> None:
    """The title, the machine, the axis and the colours where there are several."""
    from matplotlib.patches import Patch

    left = 0.15 / figure.get_figwidth()
    figure.text(left, 1 - 0.32 * inch, title_of(data), fontsize=13, fontweight="bold", color=_INK)
    figure.text(left, 1 - 0.54 * inch, machine_of(data), fontsize=8, color=_GREY)
    middle = (_LEFT / figure.get_figwidth() + 0.97) / 2
    figure.text(middle, 0.17 * inch, _AXIS, ha="center", fontsize=8.5, color=_INK)
    if len(panel.series) > 1:
        patches = [Patch(color=series.faster, label=f"over {series.label}") for series in panel.series]
        place = {"loc": "upper right", "bbox_to_anchor": (0.985, 1 - 0.1 * inch)}
        figure.legend(handles=patches, fontsize=8, frameon=False, **place)


def title_of(data: dict[str, Any]) -> str:
    if "gpu" in data:
        forward = all(_direction(row) == "fwd" for row in data["rows"])
        return f"tconv3d beside PyTorch: {'forward on ' if forward else ''}{data['gpu']}"
    return f"tconv3d beside PyTorch: {data['cpu']}, {data['threads']} threads"


def machine_of(data: dict[str, Any]) -> str:
    """What was measured with what, and when."""
    versions = [f"PyTorch {data['torch']}"]
    if "gpu" in data:
        major, rest = divmod(data["cudnn"], 10000)
        versions += [f"CUDA {data['cuda']}", f"cuDNN {major}.{rest // 100}.{rest % 100}"]
    else:
        versions.append(data["isa"])
    return ", ".join([*versions, f"tconv3d {data['tconv3d']}", data["date"][:10]])


def _mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan
