#!/usr/bin/env python3
"""Compares kernels that are made for each size with those that serve any: how many there are, and how long they take.

build/python bench/sizes.py --count 20                          on a GPU
build/python bench/sizes.py --count 20 --gpu h200               without one: what is compiled, and estimates
build/python bench/sizes.py --count 200 --json sizes.json

Draws batches and extents for each layer of problems/layers.txt, always the same for a seed. Kernels are counted as
files in a cache of their own: what a layer compiles, the packing of weights included.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from tconv3d.cli.cases import make_tensors, tconv3d_call
from tconv3d.cli.environment import environment
from tconv3d.cli.gpu import measure, require_gpu, sets_past_l2
from tconv3d.cli.modes import in_mode, mode_of, switch_tf32
from tconv3d.cli.results import timestamp
from tconv3d.cli.table import table
from tconv3d.problem import LAYOUTS, NamedProblem, Problem, find_file, read_file

SETTINGS = ("one", "any")
#: Outputs of a drawn problem, at most: what it takes is to fit beside others.
MOST_OUTPUTS = 1 << 28


@dataclass(frozen=True)
class Row:
    layer: str
    mode: str
    layout: str
    problems: list[str]
    #: By setting: files that were compiled, and the time of each problem.
    compiled: dict[str, int]
    times: dict[str, list[float]]

    @property
    def ratios(self) -> list[float]:
        """Of the problems that both settings have a time for: not every implementation tells an estimate."""
        ratios = [any_size / one for one, any_size in zip(self.times["one"], self.times["any"])]
        return [ratio for ratio in ratios if not math.isnan(ratio)]


def draw(layer: Problem, count: int, largest: int, seed: int) -> list[Problem]:
    numbers = random.Random(f"{seed} {layer}")
    drawn: list[Problem] = []
    while len(drawn) < count:
        extents = (numbers.randint(4, largest), numbers.randint(4, largest), numbers.randint(4, largest))
        problem = replace(layer, batch=numbers.randint(1, 4), src=extents)
        if problem.batch * problem.dst_channels * math.prod(problem.facts()["dst"]) <= MOST_OUTPUTS:
            drawn.append(problem)
    return drawn


def compile_all(problems: Sequence[Problem], setting: str, gpu: str | None) -> int:
    """Compiles what the problems need, side by side, and returns the files that this has added to the cache."""
    folder = Path(os.environ["TCONV3D_CACHE_DIR"])
    before = files_below(folder)
    jobs = min(os.cpu_count() or 1, len(problems))
    processes = []
    for job in range(jobs):
        texts = [str(problem) for problem in problems[job::jobs]]
        command = [sys.executable, __file__, "--compile", *texts, *(["--gpu", gpu] if gpu else [])]
        processes.append(subprocess.Popen(command, env={**os.environ, "TCONV3D_CUDA_SIZES": setting}))
    if any([process.wait() != 0 for process in processes]):
        raise SystemExit("sizes: a process that compiles has failed, see above")
    return files_below(folder) - before


def files_below(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def compile_here(texts: list[str], gpu: str | None) -> None:
    for text in texts:
        problem = Problem.parse(text)
        if gpu:
            torch.ops.tconv3d.cuda_model_compile(text, "", gpu, 0)
        else:
            switch_tf32(mode_of(problem))
            tconv3d_call(problem, *make_tensors(problem, "cuda"))


def milliseconds(problem: Problem, setting: str, options: argparse.Namespace) -> float:
    with environment({"TCONV3D_CUDA_SIZES": setting}):
        if options.gpu:
            return estimate(str(torch.ops.tconv3d.cuda_model_explain(str(problem), "", options.gpu, 0)))
        switch_tf32(mode_of(problem))
        sets = sets_past_l2(float(problem.facts()["bytes"]))
        tensors = [make_tensors(problem, "cuda") for _ in range(sets)]
        return measure(lambda i: tconv3d_call(problem, *tensors[i]), sets, options.seconds, 3).ms


def estimate(explained: str) -> float:
    found = re.search(r"^implementation .*about (\d+) us", explained, re.MULTILINE)
    return max(int(found[1]), 1) / 1e3 if found else math.nan


def measure_layer(named: NamedProblem, options: argparse.Namespace) -> Row:
    problems = draw(named.problem, options.count, options.largest, options.seed)
    compiled = {setting: compile_all(problems, setting, options.gpu) for setting in SETTINGS}
    times: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for problem in problems:
        for setting in SETTINGS:
            times[setting].append(milliseconds(problem, setting, options))
    mode = mode_of(named.problem)
    return Row(named.name, mode, named.problem.layout, list(map(str, problems)), compiled, times)


def geometric_mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if values else math.nan


def summary(rows: Sequence[Row]) -> str:
    header = ["layer", "mode", "layout", "files for each size", "files for any", "time, any / each", "worst"]
    cells = [
        [row.layer, row.mode, row.layout, str(row.compiled["one"]), str(row.compiled["any"]),
         f"{geometric_mean(row.ratios):.3f}", f"{max(row.ratios, default=math.nan):.2f}"] for row in rows
    ]  # fmt: skip
    for mode, layout in dict.fromkeys((row.mode, row.layout) for row in rows):
        ratios = [ratio for row in rows if (row.mode, row.layout) == (mode, layout) for ratio in row.ratios]
        largest = max(ratios, default=math.nan)
        cells.append(["all", mode, layout, "", "", f"{geometric_mean(ratios):.3f}", f"{largest:.2f}"])
    return table(header, cells)


def variants(options: argparse.Namespace) -> list[NamedProblem]:
    layers = [named for named in read_file(find_file("layers")) if re.search(options.filter, named.name)]
    return [
        replace(named, problem=in_mode(replace(named.problem, layout=layout), mode))
        for mode in options.dtype.split(",")
        for layout in options.layout.split(",")
        for named in layers
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="sizes of each layer (default: 20)")
    parser.add_argument("--largest", type=int, default=96, help="the largest extent (default: 96)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--filter", default="", help="a regular expression for names of layers")
    parser.add_argument("--dtype", default="tf32,bf16", help="modes, with commas (default: tf32,bf16)")
    parser.add_argument("--layout", default=",".join(LAYOUTS))
    parser.add_argument("--seconds", type=float, default=0.01, help="how long each problem is timed")
    parser.add_argument("--gpu", help="a GPU that need not be there, such as h200: estimates instead of times")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--compile", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.gpu is None:
        require_gpu()
    if options.compile:
        return compile_here(options.compile, options.gpu)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache, environment({"TCONV3D_CACHE_DIR": cache}):
        for named in variants(options):
            rows.append(measure_layer(named, options))
            print(f"{named.name}: {named.problem}", file=sys.stderr, flush=True)
    print(summary(rows))
    if options.json is not None:
        machine = options.gpu or torch.cuda.get_device_name()
        facts = {"machine": machine, "estimated": bool(options.gpu), "torch": torch.__version__, "date": timestamp()}
        options.json.write_text(json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
