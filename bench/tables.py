"""Tables of the documentation, made from the numbers that `bench` and its relatives write: Markdown, and no files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

BASELINES = Path(__file__).resolve().parents[1] / "problems/baselines.txt"


def summary(data: dict[str, Any]) -> str:
    """A line per direction: the geometric mean of the speed-ups, the least and the greatest; the machine, the plot."""
    header = ["direction", "geometric mean", "least", "greatest"]
    rows = []
    for kind, mean in data["geometric_means"].items():
        speed_ups = [row["speed_up"] for row in data["rows"] if _kind(row) == kind]
        rows.append([kind, *(f"{value:.2f}×" for value in (mean, min(speed_ups), max(speed_ups)))])
    plot = "![Speed-up over PyTorch, by problem and direction](docs/images/cpu.png)"
    return "\n\n".join([_table(header, rows), _machine(data), plot])


def full(data: dict[str, Any]) -> str:
    """A table per direction with the medians of both sides, then the machine and its ceilings."""
    header = ["name", "problem", "PyTorch ms", "tconv3d ms", "speed-up", "GFLOP/s", "× floor"]
    parts = [_machine(data), *(_ceilings(dtype, rates) for dtype, rates in data["ceilings"].items())]
    for kind, mean in data["geometric_means"].items():
        rows = [row for row in data["rows"] if _kind(row) == kind]
        worst = min(row["speed_up"] for row in rows)
        parts.append(f"**{kind}**: geometric mean {mean:.2f}× PyTorch, worst {worst:.2f}×.")
        parts.append(_table(header, [_measured(row) for row in rows]))
    return "\n\n".join(parts)


#: Problems whose floor is shorter are launches more than work, and left out of the mean over floors.
LEAST_FLOOR_MS = 0.02


def cuda_summary(data: dict[str, Any]) -> str:
    """Means by mode and layout; of the first of them, a line per decoder of a network: what it is, PyTorch as it comes
    and at its best, tconv3d, and their ratios; then the machine and the plot."""
    header = ["what", "problem", "PyTorch default ms", "PyTorch best ms", "tconv3d ms", "default / ours", "best / ours"]
    kinds = _cuda_kinds(data)
    means = _table(
        ["mode", "over PyTorch's default", "over the best PyTorch", "× floor", "best PyTorch × floor"],
        [_cuda_means(data, kind) for kind in kinds],
    )
    rows = [row for row in data["rows"] if _cuda_kind(row) == kinds[0] and row["name"].startswith("net_")]
    decoders = _table(header, [_cuda_cells(row) for row in rows])
    plot = "![Speed-up over PyTorch's default and over its best, by problem](docs/images/h200.png)"
    return "\n\n".join([means, f"Layers of published networks, {kinds[0]}:", decoders, _cuda_machine(data), plot])


def cuda_full(data: dict[str, Any]) -> str:
    """A table per mode and layout with all that was measured, after the machine and its ceilings."""
    header = ["name", "problem", "default ms", "tuned NCDHW ms", "tuned NDHWC ms", "tconv3d ms", "floor ms", "TFLOP/s"]
    header += ["GB/s", "× floor", "best × floor", "extra MiB", "call µs", "default's call µs"]
    parts = [_cuda_machine(data), *(_cuda_ceilings(mode, rates) for mode, rates in data["ceilings"].items())]
    parts += [part for kind in _cuda_kinds(data) for part in _cuda_part(data, kind, header, _cuda_measured)]
    return "\n\n".join(parts)


def kernelbench(data: dict[str, Any]) -> str:
    """A line per problem of KernelBench: the ways to run PyTorch, and ours plain and compiled; then the means."""
    header = ["problem", "eager ms", "tuned ms", "compiled ms", "tconv3d ms", "tconv3d compiled ms"]
    header += ["eager / tconv3d", "best PyTorch / best tconv3d"]
    rows = data["results"]
    gains = [_kernelbench_gain(row) for row in rows]
    means = (
        f"Geometric means over these {len(rows)}: {_mean([row['torch_ms'] / row['tconv3d_ms'] for row in rows]):.2f}× "
        f"eager, {_mean(gains):.2f}× the best of what was measured of PyTorch; {sum(gain > 1 for gain in gains)} of "
        f"{len(gains)} faster than it."
    )
    return "\n\n".join([_table(header, [_kernelbench_cells(row) for row in rows]), means])


def networks(data: dict[str, Any]) -> str:
    """A line per network and step, before and after `accelerate`."""
    header = ["network", "input", "dtype", "step", "PyTorch ms", "tconv3d ms", "speed-up", "transposed convolutions"]
    rows = [
        [
            row["network"],
            "×".join(map(str, row["size"])),
            row["dtype"],
            row["step"],
            *(f"{row[side]:.1f}" for side in ("torch_ms", "tconv3d_ms")),
            f"{row['torch_ms'] / row['tconv3d_ms']:.2f}×",
            f"{row['share']:.0%}",
        ]
        for row in data["rows"]
    ]
    machine = f"{data['machine']}, {data['threads']} threads; PyTorch {data['torch']}, tconv3d {data['tconv3d']}"
    return "\n\n".join([_table(header, rows), f"{machine}; {data['date'][:10]}."])


def numbers(modes: dict[str, Any], full_fp32: dict[str, Any]) -> dict[str, str]:
    """What sentences quote, by name, from the GPU's numbers in tf32 and 16 bits and in fp32 without tf32."""
    means, rows = modes["geometric_means"], [*modes["rows"], *full_fp32["rows"]]
    gain = {_row_name(row): _ms(row, "best") / _ms(row, "tconv3d") for row in rows}
    slower = [f"{name} ({ratio:.2f}×)" for name, ratio in gain.items() if ratio < 1]
    least = min((_row_name(row) for row in rows if row["mode"] in ("bf16", "f16")), key=lambda name: gain[name])
    packed = max(row["sides"]["tconv3d"]["extra_bytes"] for row in rows)
    return {
        "problems": str(len({row["name"] for row in rows})),
        "tf32-over-default": f"{means['tf32 ncdhw, default PyTorch']:.2f}×",
        "tf32-over-best": f"{means['tf32 ncdhw, best PyTorch']:.2f}×",
        "slower-than-best": ", ".join(slower) or "none",
        "least-gain-in-16-bits": f"{gain[least]:.2f}× on {least}",
        "most-packed-weights": f"{packed / 2**20:.1f} MiB",
    }


def _measured(row: dict[str, Any]) -> list[str]:
    return [
        f"`{row['name']}`",
        f"`{_extents(row['problem'])}`",
        f"{row['torch_ms']:.3f}",
        f"{row['tconv3d_ms']:.3f}",
        f"{row['speed_up']:.2f}×",
        f"{row['gflop'] / row['tconv3d_ms'] * 1e3:.1f}",
        f"{row['tconv3d_ms'] / row['floor_ms']:.1f}×",
    ]


def _extents(problem: str) -> str:
    """Without the words that say the default, and those that the heading says."""
    said = ("s1", "p0", "op0", "d1", "g1", "tf32", "full")
    *words, _layout, _direction = (word for word in problem.split() if word not in said)
    return " ".join(words[:-1])


def _kind(row: dict[str, Any]) -> str:
    return f"{row['direction']} {row['dtype']} {row['layout']}"


def _machine(data: dict[str, Any]) -> str:
    return (
        f"{data['cpu']}, {data['cores']} cores, {data['threads']} threads, {data['isa']}; PyTorch {data['torch']}, "
        f"Python {data['python']}, tconv3d {data['tconv3d']}; {data['date'][:10]}."
    )


def _ceilings(dtype: str, rates: dict[str, float]) -> str:
    return f"Ceilings, {dtype}: matmul {rates['matmul_gflops']:.0f} GFLOP/s, copy {rates['copy_gbytes']:.1f} GB/s."


def _cuda_kinds(data: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(_cuda_kind(row) for row in data["rows"]))


def _cuda_kind(row: dict[str, Any]) -> str:
    """Rows without a direction are fwd."""
    direction = row.get("direction", "fwd")
    return " ".join([*([] if direction == "fwd" else [direction]), row["mode"], row["layout"]])


def _cuda_part(
    data: dict[str, Any], kind: str, header: list[str], cells: Callable[[dict[str, Any]], list[str]]
) -> list[str]:
    """The means of a mode and layout, and its table."""
    rows = [row for row in data["rows"] if _cuda_kind(row) == kind]
    _, default, best, floor, best_floor = _cuda_means(data, kind)
    text = (
        f"**{kind}**, geometric means: {default} as fast as default PyTorch, {best} as fast as the best PyTorch. Over "
        f"the {len(_large(rows))} problems with a floor of at least {LEAST_FLOOR_MS} ms tconv3d takes {floor} the "
        f"floor, the best PyTorch {best_floor}."
    )
    return [text, _table(header, [cells(row) for row in rows])]


def _cuda_means(data: dict[str, Any], kind: str) -> list[str]:
    """The mode and layout, how many times as fast as PyTorch by default and at its best, and both sides' floors."""
    rows = _large([row for row in data["rows"] if _cuda_kind(row) == kind])
    means = [data["geometric_means"][f"{kind}, {over} PyTorch"] for over in ("default", "best")]
    floors = [_mean([_ms(row, side) / row["floor_ms"] for row in rows]) for side in ("tconv3d", "best")]
    return [kind, *(f"{value:.2f}×" for value in (*means, *floors))]


def _large(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["floor_ms"] >= LEAST_FLOOR_MS]


def _ms(row: dict[str, Any], side: str) -> float:
    """Infinite where that side failed. `best` is PyTorch's fastest side."""
    return float(row["sides"][row["best"] if side == "best" else side].get("ms", math.inf))


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _cuda_cells(row: dict[str, Any]) -> list[str]:
    default, best, ours = (_ms(row, side) for side in ("default", "best", "tconv3d"))
    return [
        _reasons().get(row["name"], row["name"]),
        f"`{_extents(row['problem'])}`",
        *(f"{ms:.3f}" for ms in (default, best, ours)),
        *(f"{ms / ours:.2f}×" for ms in (default, best)),
    ]


def _reasons() -> dict[str, str]:
    """Why each of the baselines is among them, by name."""
    lines = BASELINES.read_text(encoding="utf-8").splitlines()
    found = (re.fullmatch(r"(\w+): .*?# (.+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match is not None}


def _row_name(row: dict[str, Any]) -> str:
    return f"`{row['name']}` in {_cuda_kind(row)}"


#: Fields of a row of kernelbench/run.py, by the column that shows the least of them.
_KERNELBENCH_TIMES = {
    "eager": ("torch_ms",),
    "tuned": ("tuned_ms", "tuned_ndhwc_ms"),
    "compiled": ("compiled_ms", "tuned_compiled_ms"),
    "tconv3d": ("tconv3d_ms",),
    "tconv3d compiled": ("tconv3d_compiled_ms",),
}


def _kernelbench_ms(row: dict[str, Any], *columns: str) -> float:
    """The least time of the columns; infinite where none was measured."""
    times = [row.get(field) for column in columns for field in _KERNELBENCH_TIMES[column]]
    return min((float(ms) for ms in times if ms is not None), default=math.inf)


def _kernelbench_gain(row: dict[str, Any]) -> float:
    theirs = _kernelbench_ms(row, "eager", "tuned", "compiled")
    return theirs / _kernelbench_ms(row, "tconv3d", "tconv3d compiled")


def _kernelbench_cells(row: dict[str, Any]) -> list[str]:
    level, problem = row["problem"].removeprefix("level").split("_")
    times = [_kernelbench_ms(row, column) for column in _KERNELBENCH_TIMES]
    return [
        f"level {level}, {problem}",
        *("–" if math.isinf(ms) else f"{ms:.3f}" for ms in times),
        f"{row['torch_ms'] / row['tconv3d_ms']:.2f}×",
        f"{_kernelbench_gain(row):.2f}×",
    ]


def _cuda_measured(row: dict[str, Any]) -> list[str]:
    ours, answer = _ms(row, "tconv3d"), row["sides"]["tconv3d"]
    return [
        f"`{row['name']}`",
        f"`{_extents(row['problem'])}`",
        *(f"{_ms(row, side):.3f}" for side in ("default", "tuned ncdhw", "tuned ndhwc", "tconv3d")),
        f"{row['floor_ms']:.3f}",
        f"{row['gflop'] / ours:.1f}",
        f"{row['mbytes'] / ours:.0f}",
        *(f"{_ms(row, side) / row['floor_ms']:.2f}×" for side in ("tconv3d", "best")),
        f"{answer.get('extra_bytes', math.nan) / 2**20:.1f}",
        *(f"{answer.get('calls_us', {}).get(side, math.nan):.0f}" for side in ("tconv3d", "default")),
    ]


def _cuda_machine(data: dict[str, Any]) -> str:
    major, rest = divmod(data["cudnn"], 10000)
    return (
        f"{data['gpu']}; PyTorch {data['torch']}, CUDA {data['cuda']}, cuDNN {major}.{rest // 100}.{rest % 100}, "
        f"Python {data['python']}, tconv3d {data['tconv3d']}; {data['date'][:10]}."
    )


def _cuda_ceilings(mode: str, rates: dict[str, float]) -> str:
    tflops, tbytes = rates["matmul_gflops"] * 1e-3, rates["copy_gbytes"] * 1e-3
    return f"Ceilings, {mode}: matmul {tflops:.1f} TFLOP/s, copy {tbytes:.2f} TB/s."


#: Columns of text; the others are numbers.
_WORDS = ("name", "problem", "what", "mode", "direction", "network", "input", "dtype", "step")


def _table(header: list[str], rows: list[list[str]]) -> str:
    """Text to the left, numbers to the right."""
    rule = ["---" if title in _WORDS else "---:" for title in header]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rows])
