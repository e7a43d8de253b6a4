"""Checks the KernelBench problems against plain PyTorch and times both.

python kernelbench/run.py [--only 70 L2-100 ...] [--device cpu|cuda] [--scale small|full] [--json FILE]

PyTorch as it comes and tconv3d take turns in one process, each plain and by torch.compile. On a GPU, PyTorch is also
timed with cudnn.benchmark, in both layouts and compiled, in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import torch
from measure import (
    SMALL_BATCH,
    SMALL_FLOPS,
    Errors,
    Settings,
    build,
    build_plain,
    check_parameters,
    errors,
    interleaved_medians,
    load,
    make_inputs,
)
from reference import PROBLEMS
from tuned import TunedProcess

import tconv3d

TRIALS = 3

HEADER = (
    "problem     input                 eager ms  tuned ms  compiled  tconv3d  compiled  best/ours     error  PyTorch's"
)


@dataclass
class Result:
    problem: str
    shape: list[int]
    error: float
    torch_error: float
    allowed_error: float
    torch_ms: float
    tconv3d_ms: float
    # By torch.compile; None where it was not asked for.
    compiled_ms: float | None = None
    tconv3d_compiled_ms: float | None = None
    # PyTorch with cudnn.benchmark; None on the CPU.
    tuned_ms: float | None = None
    tuned_ndhwc_ms: float | None = None
    tuned_compiled_ms: float | None = None

    @property
    def best_tuned_ms(self) -> float | None:
        """In the better layout."""
        return least(self.tuned_ms, self.tuned_ndhwc_ms)

    @property
    def best_compiled_ms(self) -> float | None:
        """With cudnn.benchmark or without."""
        return least(self.compiled_ms, self.tuned_compiled_ms)

    @property
    def best_ms(self) -> float:
        """PyTorch's: as it comes, tuned or compiled."""
        return least(self.torch_ms, self.best_tuned_ms, self.best_compiled_ms) or math.nan

    @property
    def ours_ms(self) -> float:
        """Plain or compiled."""
        return least(self.tconv3d_ms, self.tconv3d_compiled_ms) or math.nan

    @property
    def speedup(self) -> float:
        return self.torch_ms / self.tconv3d_ms

    @property
    def speedup_over_best(self) -> float:
        return self.best_ms / self.ours_ms

    @property
    def passed(self) -> bool:
        return self.error <= self.allowed_error


def least(*times: float | None) -> float | None:
    """Of those that were measured."""
    return min((ms for ms in times if ms is not None), default=None)


@torch.no_grad()
def run_problem(problem: str, settings: Settings) -> Result:
    """Both modules of a problem as they come and compiled; ours are checked in both forms before anything is timed."""
    module = load(problem, settings)
    model = build(lambda: module.ModelNew(*module.get_init_inputs()), settings.device)
    plain = build_plain(problem, module, settings.device)
    check_parameters(model, plain)
    pairs = {("tconv3d_ms", "torch_ms"): (model, plain)}
    if settings.compile:
        torch._dynamo.reset()
        compiled = (torch.compile(model, dynamic=False), torch.compile(plain, dynamic=False))
        pairs["tconv3d_compiled_ms", "compiled_ms"] = compiled

    found: list[Errors] = []
    for trial in range(TRIALS):
        inputs = make_inputs(module, settings.device, 1 + trial)
        found.append(errors(list(pairs.values()), plain, inputs))
    worst = max(found, key=lambda each: each.excess)
    modules = {name: each for names, pair in pairs.items() for name, each in zip(names, pair)}
    calls = {name: lambda each=each: each(*inputs) for name, each in modules.items()}
    return Result(problem, list(inputs[0].shape), **asdict(worst), **interleaved_medians(calls, settings))


def row(result: Result) -> str:
    shape = "x".join(map(str, result.shape))
    times = (result.torch_ms, result.best_tuned_ms, result.best_compiled_ms)
    ours = (result.tconv3d_ms, result.tconv3d_compiled_ms)
    cells = [*(f"{milliseconds(ms):>9}" for ms in times), *(f"{milliseconds(ms):>8}" for ms in ours)]
    return (
        f"{result.problem:<11} {shape:<20} {' '.join(cells)}  {result.speedup_over_best:>8.2f}x"
        f" {result.error:>9.1e} {result.torch_error:>10.1e}  {'ok' if result.passed else 'OVER BOUND'}"
    )


def milliseconds(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.3f}"


def summary(results: Sequence[Result]) -> str:
    """Geometric means of our speed-ups over each way to run PyTorch; how many problems are in bounds, how many won."""
    theirs = {
        "eager": [result.torch_ms for result in results],
        "tuned": [result.best_tuned_ms for result in results],
        "compiled": [result.best_compiled_ms for result in results],
        "the best of them": [result.best_ms for result in results],
    }
    ours = {
        "tconv3d": [result.tconv3d_ms for result in results],
        "compiled tconv3d": [result.tconv3d_compiled_ms for result in results],
    }
    if None not in ours["compiled tconv3d"]:
        ours["the better of both"] = [result.ours_ms for result in results]
    lines = []
    for name, mine in ours.items():
        means = {other: mean_ratio(times, mine) for other, times in theirs.items()}
        said = [f"{mean:.2f}x {other}" for other, mean in means.items() if mean is not None]
        lines += [f"geometric mean, {name + ':':<19} {', '.join(said)}"] if said else []
    within = sum(result.passed for result in results)
    won = sum(result.speedup_over_best > 1 for result in results)
    counts = f"{within} of {len(results)} within the error bound, {won} of {len(results)} faster than the best PyTorch"
    return "\n".join([*lines, counts])


def mean_ratio(theirs: Sequence[float | None], ours: Sequence[float | None]) -> float | None:
    """None where a side was not measured for all problems: means over different problems cannot be compared."""
    if None in theirs or None in ours:
        return None
    return statistics.geometric_mean(their / our for their, our in zip(theirs, ours))


def problem_name(text: str) -> str:
    """`L1-70`, `L2-100` or `level1_70` name a problem; so does a number that only one level has."""
    found = []
    for problem in PROBLEMS:
        level, number = problem.removeprefix("level").split("_")
        if text.lower() in (number, f"l{level}-{number}", problem):
            found.append(problem)
    if len(found) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} names {' and '.join(found)}: say L1-{text} or L2-{text}")
    if not found:
        raise argparse.ArgumentTypeError(f"no problem {text!r}; there are {', '.join(PROBLEMS)}")
    return found[0]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", type=problem_name, default=list(PROBLEMS), metavar="P")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--scale", choices=("small", "full"), help="default: small on the CPU, full on a GPU")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="how long the modules of a problem take turns (default: 1)"
    )
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        help="also time both sides by torch.compile (default: on a GPU)",
    )
    parser.add_argument("--no-tf32", action="store_true", help="on a GPU, multiply fp32 in full (PyTorch's is tf32)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, as they come")
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    arguments.scale = arguments.scale or ("full" if on_gpu else "small")
    arguments.compile = on_gpu if arguments.compile is None else arguments.compile
    if on_gpu and not torch.cuda.is_available():
        parser.error(f"PyTorch {torch.__version__} sees no CUDA GPU")
    return arguments


def as_json(result: Result) -> dict[str, object]:
    computed = ("passed", "speedup", "best_ms", "ours_ms", "speedup_over_best")
    return {**asdict(result), **{name: getattr(result, name) for name in computed}}


def write_json(path: Path, results: Sequence[Result], settings: Settings) -> None:
    on_gpu = settings.device == "cuda"
    facts = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "tconv3d": tconv3d.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "tf32": on_gpu and torch.backends.cudnn.allow_tf32,
        "scale": settings.scale,
        "load_average": os.getloadavg()[0],
        "results": list(map(as_json, results)),
    }
    path.write_text(json.dumps(facts, indent=2) + "\n")


def warn_if_busy() -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        print(f"WARNING: load average {load:.1f} on {cores} cores: other programs are running, the times mean little")


def title(settings: Settings) -> str:
    if settings.device == "cpu":
        return f"torch {torch.__version__}, cpu, {torch.get_num_threads()} threads, float32, forward"
    products = "tf32" if torch.backends.cudnn.allow_tf32 else "full"
    return f"torch {torch.__version__}, {torch.cuda.get_device_name()}, float32 with products in {products}, forward"


def main() -> int:
    arguments = parse_arguments()
    settings = Settings(arguments.device, arguments.scale, arguments.seconds, arguments.compile)
    if arguments.no_tf32:
        torch.backends.cudnn.allow_tf32 = False
    print(title(settings))
    if settings.scale == "small":
        print(f"scale small: batch at most {SMALL_BATCH}, extents cut until at most {SMALL_FLOPS / 1e9:.0f} GFLOP")
        print("             (--scale full runs KernelBench's own sizes)")
    warn_if_busy()
    print(HEADER)
    results: list[Result] = []
    with contextlib.ExitStack() as stack:
        tuned = stack.enter_context(TunedProcess(settings)) if settings.device == "cuda" else None
        for problem in arguments.only:
            if sys.stderr.isatty():
                print(f"{problem} ...", end="\r", file=sys.stderr, flush=True)
            result = run_problem(problem, settings)
            if tuned is not None:
                torch.cuda.empty_cache()
                result = replace(result, **tuned.times(problem))
            results.append(result)
            print(row(result), flush=True)
            if arguments.json:
                write_json(arguments.json, results, settings)
    print(summary(results))
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
