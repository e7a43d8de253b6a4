"""The benchmark on a GPU: PyTorch as it comes, PyTorch as cuDNN can be tuned, tconv3d and the roofline's floor."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..problem import LAYOUTS, NamedProblem, Problem
from .bench_worker import Work
from .gpu import require_gpu
from .load import watched
from .machine import Rates
from .modes import mode_of
from .plot import save_plot
from .results import report_wrong, write_json
from .results_cuda import Answer, Row, results, summary

#: Problems with a shorter floor are timed in a row of calls too: the events around a single one count in such a time.
_SHORT_FLOOR_MS = 0.01


def run(options: argparse.Namespace, cases: list[NamedProblem]) -> int:
    require_gpu()
    with watched(threads=1):
        rates = _ceilings(options.dtype)
        sides = _measure_sides([named.problem for named in cases], rates, options)
    answered = [(named, answers) for named in cases if (answers := _answers(named.problem, sides)) is not None]
    if not answered:
        return 1
    rows = [_row(named, answers, rates) for named, answers in answered]
    print(summary(rows, rates))
    if options.json is not None:
        write_json(results(rows, rates), options.json)
    if options.plot is not None:
        save_plot(results(rows, rates), options.plot)
    return report_wrong(rows) or int(len(rows) < len(cases))


def _measure_sides(
    problems: list[Problem], rates: dict[str, Rates], options: argparse.Namespace
) -> dict[str, dict[str, Answer]]:
    """The answers by side and problem. When the benchmark is stopped, those that there are."""
    theirs = {
        "default": problems,
        # The fastest that PyTorch can be made: cuDNN's search in either layout.
        **{f"tuned {layout}": _in_layout(problems, layout) for layout in LAYOUTS},
    }
    work = {**({} if options.alone else theirs), "tconv3d": problems}
    sides: dict[str, dict[str, Answer]] = {side: {} for side in work}
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for side, its_problems in work.items():
            _measure(side.partition(" ")[0], its_problems, rates, options, sides[side])
    except KeyboardInterrupt:
        print("stopped: only problems that all sides have answered are reported", file=sys.stderr, flush=True)
    finally:
        signal.signal(signal.SIGTERM, before)
    return sides


def _in_layout(problems: list[Problem], layout: str) -> list[Problem]:
    return list(dict.fromkeys(replace(problem, layout=layout) for problem in problems))


def _answers(problem: Problem, sides: dict[str, dict[str, Answer]]) -> dict[str, Answer] | None:
    """What each side answered; None while one has not."""
    answers = {
        side: answer.get(str(replace(problem, layout=side.partition(" ")[2] or problem.layout)))
        for side, answer in sides.items()
    }
    found = {side: answer for side, answer in answers.items() if answer is not None}
    return found if len(found) == len(answers) else None


def _row(named: NamedProblem, answers: dict[str, Answer], rates: dict[str, Rates]) -> Row:
    problem, facts = named.problem, named.problem.facts()
    ours = answers["tconv3d"]
    return Row(
        name=named.name,
        problem=str(problem),
        direction=problem.direction,
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
    side: str,
    problems: list[Problem],
    rates: dict[str, Rates],
    options: argparse.Namespace,
    answers: dict[str, Answer],
) -> None:
    """Fills in the answers of one side, by problem."""
    short = [str(problem) for problem in problems if _floor_ms(problem, rates) < _SHORT_FLOOR_MS]
    work = Work(side, list(map(str, problems)), short, options.seconds, options.repeats, options.seed)
    for answer in _worker(asdict(work)):
        answers[answer["problem"]] = answer
        said = answer.get("failed") or f"{answer['ms']:9.4f} ms"
        print(f"[{len(answers):>3}/{len(problems)}] {side:<8} {answer['problem']}: {said}", file=sys.stderr, flush=True)


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
        try:
            process.stdin.write(json.dumps(work))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise RuntimeError(f"the process of the benchmark ended with status {process.returncode}; see above")
