"""time tconv3d side by side with PyTorch"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import replace

import torch

from .. import _library
from ..problem import DIRECTIONS, LAYOUTS, NamedProblem, find_file, read_file
from . import bench_cuda, usage
from .cases import TOLERANCE, make_case, relative_error
from .load import watched
from .machine import Rates, measure_rates
from .modes import MODES, in_mode
from .plot import save_plot
from .results import Row, report_wrong, results, summary, write_json
from .scale import scale_for_cpu
from .timing import interleaved


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="default: cpu")
    parser.add_argument("--problems", default="baselines", metavar="FILE", help="problem file (default: baselines)")
    parser.add_argument("--filter", type=_regex, default="", metavar="REGEX", help="only problems whose name matches")
    _add_list(parser, ["--direction", "--directions"], list(DIRECTIONS), "all of them on the CPU, fwd on a GPU")
    _add_list(parser, ["--dtype"], list(MODES), "f32 on the CPU, tf32 on a GPU")
    _add_list(parser, ["--layout"], list(LAYOUTS), "ncdhw")
    parser.add_argument("--scale", choices=["cpu", "none"], help="cpu: cut to 3 GFLOP (default on the CPU)")
    parser.add_argument(
        "--threads", type=usage.count, metavar="N", help="CPU threads of both sides (default: PyTorch's)"
    )
    parser.add_argument("--seconds", type=usage.seconds, default=0.4, help="time for each measurement (default 0.4)")
    parser.add_argument("--repeats", type=usage.count, default=3, help="runs of each side at least (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="of the random data (default 0)")
    parser.add_argument("--alone", action="store_true", help="on a GPU: time tconv3d only, which shows × floor")
    parser.add_argument("--json", type=usage.output, metavar="FILE", help="every number, with versions and machine")
    parser.add_argument("--plot", type=usage.picture, metavar="FILE.png", help="speed-ups as a bar chart")


def run(options: argparse.Namespace) -> int:
    _library.require()
    on_gpu = options.device == "cuda"
    options.dtype = options.dtype or (["tf32"] if on_gpu else ["f32"])
    options.direction = options.direction or (["fwd"] if on_gpu else list(DIRECTIONS))
    options.layout = options.layout or ["ncdhw"]
    if options.alone and not on_gpu:
        raise ValueError("--alone is for --device cuda: on the CPU both sides are timed in turns")
    if options.alone and options.plot is not None:
        raise ValueError("--plot shows speed-ups over PyTorch, which --alone does not time")
    options.scale = options.scale or ("none" if on_gpu else "cpu")
    return bench_cuda.run(options, list(_cases(options))) if on_gpu else _run_on_cpu(options)


def _run_on_cpu(options: argparse.Namespace) -> int:
    if "tf32" in options.dtype:
        raise ValueError("--dtype tf32 is for --device cuda: the CPU multiplies fp32 in full")
    torch.manual_seed(options.seed)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    cases = list(_cases(options))
    with watched(torch.get_num_threads()):
        rates = {dtype: measure_rates(dtype) for dtype in options.dtype}
        rows = [_measure(named, rates, options, f"[{i:>3}/{len(cases)}]") for i, named in enumerate(cases, start=1)]
        print(summary(rows, rates))
    if options.json is not None:
        write_json(results(rows, rates), options.json)
    if options.plot is not None:
        save_plot(results(rows, rates), options.plot)
    return report_wrong(rows)


def _cases(options: argparse.Namespace) -> Iterator[NamedProblem]:
    chosen = [named for named in read_file(find_file(options.problems)) if options.filter.search(named.name)]
    if not chosen:
        raise ValueError(f"no problem of '{options.problems}' matches '{options.filter.pattern}'")
    for named in chosen:
        problem = scale_for_cpu(named.problem) if options.scale == "cpu" else named.problem
        for mode in options.dtype:
            for layout in options.layout:
                for direction in options.direction:
                    asked = replace(in_mode(problem, mode), layout=layout, direction=direction)
                    yield replace(named, problem=asked)


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


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is not a regular expression: {error}") from None


def _add_list(parser: argparse.ArgumentParser, names: list[str], known: list[str], default: str) -> None:
    def words(text: str) -> list[str]:
        unknown = [word for word in text.split(",") if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; known: {', '.join(known)}")
        return text.split(",")

    parser.add_argument(*names, type=words, metavar="LIST", help=f"of {', '.join(known)}; default: {default}")
