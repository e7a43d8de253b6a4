"""The speed-ups of a benchmark as a bar chart."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .results import Bar, geometric_means


def save_plot(rows: Sequence[Bar], path: Path) -> None:
    """Writes the chart; without matplotlib it says so and goes on."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
        return
    names = list(dict.fromkeys(row.name for row in rows))
    means = geometric_means(rows)
    height = 0.8 / len(means)
    figure = Figure(figsize=(9, 1.5 + 0.1 * len(names) * (1 + len(means))), layout="constrained")
    axes = figure.add_subplot()
    for index, (kind, mean) in enumerate(means.items()):
        of_kind = [row for row in rows if row.kind == kind]
        places = [names.index(row.name) + (index - (len(means) - 1) / 2) * height for row in of_kind]
        axes.barh(places, [row.speed_up for row in of_kind], height, label=f"{kind}: {mean:.2f}× (geometric mean)")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}×")
    axes.set_yticks(range(len(names)), names)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("speed-up over PyTorch (right of the line: tconv3d takes less time)")
    axes.legend(loc="best", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
