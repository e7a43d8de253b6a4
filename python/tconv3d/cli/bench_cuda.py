"""The benchmark on a GPU: PyTorch as it comes, PyTorch as cuDNN can be tuned, tconv3d and the roofline's floor."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..problem import LAYOUTS, NamedProblem, Problem
from .bench_worker import Work
from .gpu import require_gpu
from .machine import Rates
from .modes import mode_of
from .plot import save_plot
from .results import report_wrong, write_json
from .results_cuda import Answer, Row, bars, drawn, results, summary

#: Problems with a shorter floor are timed in a row of calls too: the events around a single one count in such a time.
_SHORT_FLOOR_MS = 0.01


def run(options: argparse.Namespace, cases: list[NamedProblem]) -> int:
    require_gpu()
    if options.directions != ["fwd"]:
        raise ValueError("on a GPU the gradients are PyTorch's own operators: only --directions fwd can be compared")
    rates = _ceilings(options.dtype)
    problems = [named.problem for named in cases]
    sides = {
        "default": _measure("default", problems, rates, options),
        # The fastest that PyTorch can be made: cuDNN's search in either layout.
        **{f"tuned {layout}": _measure("tuned", _in_layout(problems, layout), rates, options) for layout in LAYOUTS},
        "tconv3d": _measure("tconv3d", problems, rates, options),
    }
    rows = [_row(named, sides, rates) for named in cases]
    print(summary(rows, rates))
    if options.json is not None:
        write_json(results(rows, rates), options.json)
    if options.plot is not None:
        save_plot(bars(drawn(rows)), options.plot)
    return report_wrong(rows)


def _in_layout(problems: list[Problem], layout: str) -> list[Problem]:
    return list(dict.fromkeys(replace(problem, layout=layout) for problem in problems))


def _row(named: NamedProblem, sides: dict[str, dict[str, Answer]], rates: dict[str, Rates]) -> Row:
    problem, facts = named.problem, named.problem.facts()
    answers = {
        side: answer[str(replace(problem, layout=side.partition(" ")[2] or problem.layout))]
        for side, answer in sides.items()
    }
    ours = answers["tconv3d"]
    return Row(
        name=named.name,
        problem=str(problem),
        mode=mode_of(problem),
        layout=problem.layout,
        floor_ms=_floor_ms(problem, rates),
        gflop=facts["flops"] * 1e-9,
        mbytes=facts["bytes"] * 1e-6,
        error=float(ours.get("error", "inf")),
        agrees=bool(ours.get("agrees", False)),
        sides=answers,
    )


def _floor_ms(problem: Problem, rates: dict[str, Rates]) -> float:
    facts = problem.facts()
    return rates[mode_of(problem)].floor_ms(facts["flops"], facts["bytes"])


def _ceilings(modes: list[str]) -> dict[str, Rates]:
    measured = next(_worker({"ceilings": modes}))
    return {mode: Rates(**rates) for mode, rates in measured.items()}


def _measure(
    side: str, problems: list[Problem], rates: dict[str, Rates], options: argparse.Namespace
) -> dict[str, Answer]:
    """The answers of one side, by problem."""
    short = [str(problem) for problem in problems if _floor_ms(problem, rates) < _SHORT_FLOOR_MS]
    work = Work(side, list(map(str, problems)), short, options.seconds, options.repeats, options.seed)
    answers: dict[str, Answer] = {}
    for answer in _worker(asdict(work)):
        answers[answer["problem"]] = answer
        said = answer.get("failed") or f"{answer['ms']:9.4f} ms"
        print(f"[{len(answers):>3}/{len(problems)}] {side:<8} {answer['problem']}: {said}", file=sys.stderr, flush=True)
    return answers


def _worker(work: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Starts a process for the work and yields its lines."""
    package = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "tconv3d.cli.bench_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(json.dumps(work))
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        raise RuntimeError(f"the process of the benchmark ended with status {process.returncode}; see above")
