"""time tconv3d side by side with PyTorch, in one process and with the same threads"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from .. import _library
from ..problem import DIRECTIONS, DTYPES, LAYOUTS, NamedProblem, find_file, read_file
from .cases import TOLERANCE, make_case, relative_error
from .machine import Rates, measure_rates
from .plot import save_plot
from .results import Row, results, summary
from .scale import scale_for_cpu
from .timing import interleaved


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problems", default="baselines", metavar="FILE", help="problem file (default: baselines)")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only problems whose name matches")
    _add_list(parser, "--directions", list(DIRECTIONS), "fwd,bwd_data,bwd_weight")
    _add_list(parser, "--dtype", list(DTYPES), "f32")
    _add_list(parser, "--layout", list(LAYOUTS), "ncdhw")
    parser.add_argument("--scale", choices=["cpu", "none"], default="cpu", help="cpu: cut to 3 GFLOP (default)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of both sides (default: PyTorch's)")
    parser.add_argument("--seconds", type=float, default=0.4, help="time for each measurement (default 0.4)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side at least (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the random data (default 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every number, with versions and machine")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="speed-ups as a bar chart")


def run(options: argparse.Namespace) -> int:
    _library.require()
    torch.manual_seed(options.seed)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    rates = {dtype: measure_rates(dtype) for dtype in options.dtype}
    cases = list(_cases(options))
    if not cases:
        raise ValueError(f"no problem of '{options.problems}' matches '{options.filter}'")
    rows = [_measure(named, rates, options, f"[{i:>3}/{len(cases)}]") for i, named in enumerate(cases, start=1)]
    print(summary(rows, rates))
    if options.json is not None:
        options.json.write_text(json.dumps(results(rows, rates), indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        save_plot(rows, options.plot)
    wrong = [row for row in rows if not row.agrees]
    for row in wrong:
        print(f"WRONG: {row.name}: {row.problem}: differs from PyTorch by {row.error:.1e}", file=sys.stderr)
    return 1 if wrong else 0


def _cases(options: argparse.Namespace) -> Iterator[NamedProblem]:
    wanted = re.compile(options.filter)
    for named in read_file(find_file(options.problems)):
        if wanted.search(named.name) is None:
            continue
        problem = scale_for_cpu(named.problem) if options.scale == "cpu" else named.problem
        for dtype in options.dtype:
            for layout in options.layout:
                for direction in options.directions:
                    yield replace(named, problem=replace(problem, dtype=dtype, layout=layout, direction=direction))


def _measure(named: NamedProblem, rates: dict[str, Rates], options: argparse.Namespace, progress: str) -> Row:
    problem = named.problem
    with torch.no_grad():
        case = make_case(problem)
        error = relative_error(case.ours(), case.theirs())
        timing = interleaved(case.ours, case.theirs, options.seconds, options.repeats)
    facts = problem.facts()
    row = Row(
        name=named.name,
        problem=str(problem),
        direction=problem.direction,
        dtype=problem.dtype,
        layout=problem.layout,
        torch_ms=timing.theirs_ms,
        tconv3d_ms=timing.ours_ms,
        floor_ms=rates[problem.dtype].floor_ms(facts["flops"], facts["bytes"]),
        gflop=facts["flops"] * 1e-9,
        mbytes=facts["bytes"] * 1e-6,
        error=error,
        agrees=error <= TOLERANCE[problem.dtype],
        runs_ms={"torch": timing.theirs, "tconv3d": timing.ours},
    )
    print(progress, row.line(), file=sys.stderr, flush=True)
    return row


def _add_list(parser: argparse.ArgumentParser, name: str, known: list[str], default: str) -> None:
    def words(text: str) -> list[str]:
        unknown = [word for word in text.split(",") if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; known: {', '.join(known)}")
        return text.split(",")

    parser.add_argument(name, type=words, default=words(default), metavar="LIST", help=f"default {default}")
