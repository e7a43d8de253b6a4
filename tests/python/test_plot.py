"""The pictures of benchmarks: what they show of the numbers, and that a loss looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from tconv3d.cli import plot


def cpu_results() -> dict[str, Any]:
    rows = [
        {"name": name, "direction": direction, "dtype": "f32", "layout": "ncdhw", "speed_up": speed_up}
        for direction, speed_ups in {"fwd": (0.5, 4.0), "bwd_data": (2.0, 0.25)}.items()
        for name, speed_up in zip(("slow", "quick"), speed_ups)
    ]
    return {
        "rows": rows, "cpu": "Some CPU", "threads": 2, "isa": "avx2", "torch": "2.13.0", "tconv3d": "0.1.0",
        "date": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip


def gpu_row(name: str, mode: str, layout: str, ours: float) -> dict[str, Any]:
    sides = {"default": {"ms": 8.0}, "tuned ncdhw": {"failed": "no engine"}, "tuned ndhwc": {"ms": 4.0}}
    return {
        "name": name,
        "mode": mode,
        "layout": layout,
        "best": "tuned ndhwc",
        "sides": {**sides, "tconv3d": {"ms": ours}},
    }


def gpu_results() -> dict[str, Any]:
    rows = [gpu_row("up", mode, layout, 2.0) for mode in ("tf32", "bf16", "f16") for layout in ("ncdhw", "ndhwc")]
    return {
        "rows": [*rows, gpu_row("slow", "tf32", "ncdhw", 6.0)], "gpu": "Some GPU", "torch": "2.11.0", "cuda": "13.0",
        "cudnn": 91901, "tconv3d": "0.1.0", "date": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip


def test_a_panel_for_each_direction_on_the_cpu() -> None:
    panels = plot.panels_of(cpu_results())
    assert [panel.title for panel in panels] == ["fwd, f32, NCDHW", "bwd_data, f32, NCDHW"]
    assert [panel.series[0].speed_ups for panel in panels] == [
        {"slow": 0.5, "quick": 4.0},
        {"slow": 2.0, "quick": 0.25},
    ]


def test_two_modes_of_the_first_layout_over_best_and_default_on_the_gpu() -> None:
    panels = plot.panels_of(gpu_results())
    assert [panel.title for panel in panels] == ["tf32, NCDHW", "bf16, NCDHW"]
    best, default = panels[0].series
    assert best.speed_ups == {"up": 2.0, "slow": 4 / 6}
    assert default.speed_ups == {"up": 4.0, "slow": 8 / 6}


def test_rows_of_the_gpu_may_tell_their_direction() -> None:
    data = gpu_results()
    assert plot.title_of(data) == "tconv3d beside PyTorch: forward on Some GPU"
    data["rows"] = [{**gpu_row("up", "tf32", "ncdhw", 2.0), "direction": each} for each in ("fwd", "bwd_data")]
    assert [panel.title for panel in plot.panels_of(data)] == ["tf32, NCDHW", "bwd_data, tf32, NCDHW"]
    assert plot.title_of(data) == "tconv3d beside PyTorch: Some GPU"


def test_a_side_that_failed_has_no_bar() -> None:
    data = gpu_results()
    data["rows"][0]["sides"]["tconv3d"] = {"failed": "no kernel"}
    best, default = plot.panels_of(data)[0].series
    assert "up" not in best.speed_ups
    assert "up" not in default.speed_ups


def texts(figure: Any) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


def test_bars_begin_at_one_and_a_loss_points_left() -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib, which is not installed")
    figure = plot.draw(cpu_results())
    first = figure.axes[0]
    assert [tick.get_text() for tick in first.get_yticklabels()] == ["quick", "slow"]
    assert [(bar.get_x(), bar.get_width()) for bar in first.patches] == [(1, 3.0), (1, -0.5)]
    colours = [bar.get_facecolor() for bar in first.patches]
    assert colours[0] != colours[1]
    low, high = first.get_xlim()
    assert low < 0.25 < 4 < high
    assert first.get_xscale() == "log"
    assert figure.axes[1].get_xlim() == (low, high)


@pytest.mark.parametrize(
    ("data", "machine"), [(cpu_results(), "Some CPU, 2 threads"), (gpu_results(), "forward on Some GPU")]
)
def test_picture_names_machine_versions_and_date(data: dict[str, Any], machine: str) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib, which is not installed")
    said = texts(plot.draw(data))
    assert f"tconv3d beside PyTorch: {machine}" in said
    assert f"PyTorch {data['torch']}" in said
    assert "2026-01-02" in said
    assert ("cuDNN 9.19.1" in said) == ("gpu" in data)
