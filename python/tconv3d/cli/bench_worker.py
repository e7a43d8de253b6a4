"""One side of the GPU benchmark in a process of its own: `python -m tconv3d.cli.bench_worker < work.json`.

Reads a `Work` from standard input and writes one line of JSON for each of its problems as soon as it is measured. Its
own process, because cudnn.benchmark remembers its choices, and memory and clocks of one side must not meet the other.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..problem import Problem
from .bench_row import calls_us, device_us
from .cases import GPU_TOLERANCE, make_tensors, relative_error, tconv3d_call, torch_call
from .environment import own_gradients
from .gpu import measure, measure_gpu_rates, sets_past_l2
from .modes import mode_of, switch_tf32


@dataclass(frozen=True)
class Side:
    """Who computes: tconv3d, or PyTorch with cuDNN's defaults or with its search."""

    name: str
    tconv3d: bool = False
    benchmark: bool = False


SIDES = {
    "default": Side("default"),
    "tuned": Side("tuned", benchmark=True),
    "tconv3d": Side("tconv3d", tconv3d=True),
}


@dataclass(frozen=True)
class Work:
    side: str
    problems: list[str]
    #: Those of them that are timed in a row of calls too.
    short: list[str]
    seconds: float
    repeats: int
    seed: int


def ceilings(modes: list[str]) -> dict[str, dict[str, float]]:
    return {mode: asdict(measure_gpu_rates(mode)) for mode in modes}


def main() -> int:
    work = json.load(sys.stdin)
    if "ceilings" in work:
        print(json.dumps(ceilings(work["ceilings"])), flush=True)
        return 0
    with own_gradients():
        _measure_all(Work(**work))
    return 0


@torch.no_grad()
def _measure_all(work: Work) -> None:
    side = SIDES[work.side]
    torch.backends.cudnn.benchmark = side.benchmark
    torch.manual_seed(work.seed)
    for text in work.problems:
        try:
            answer = _measure(Problem.parse(text), side, work)
        except RuntimeError as error:  # out of memory, or an engine that cuDNN does not have: the others go on
            answer = {"failed": str(error).splitlines()[0]}
        torch.cuda.empty_cache()
        print(json.dumps({"problem": text, **answer}), flush=True)


def _measure(problem: Problem, side: Side, work: Work) -> dict[str, Any]:
    switch_tf32(mode_of(problem))
    sets = sets_past_l2(float(problem.facts()["bytes"]))
    tensors = [make_tensors(problem, "cuda") for _ in range(sets)]
    compute = tconv3d_call if side.tconv3d else torch_call

    def call(index: int) -> Tensor:
        return compute(problem, *tensors[index])

    measured = measure(call, sets, work.seconds, work.repeats)
    answer = asdict(measured)
    if str(problem) in work.short:
        answer["device_us"] = device_us(call, sets, measured.call_us)
    if side.tconv3d:
        answer["calls_us"] = calls_us({"tconv3d": call, "default": lambda i: torch_call(problem, *tensors[i])}, sets)
        answer["implementation"], answer["description"] = _implementation(problem)
        answer["error"] = _error(problem, *tensors[0])
        answer["agrees"] = answer["error"] <= GPU_TOLERANCE[mode_of(problem)]
    return answer


def _implementation(problem: Problem) -> tuple[str, str]:
    """The name of what runs, and what it says of itself."""
    explained = torch.ops.tconv3d.cuda_explain(str(problem), "", torch.cuda.current_device())
    line = next(line for line in explained.splitlines() if line.startswith("implementation "))
    name, _, description = line.partition(" ")[2].partition(":")
    return name.strip(), description.strip()


def _error(problem: Problem, *tensors: Tensor) -> float:
    """Compared one sample at a time: in double precision a whole batch may not fit. What a kernel leaves out is NaN."""
    theirs = torch_call(problem, *tensors)
    poison = torch.full_like(theirs, float("nan"))
    del poison  # the allocator gives the next tensor of this size its memory
    ours = tconv3d_call(problem, *tensors)
    if problem.direction == "bwd_weight":
        return relative_error(ours, theirs)
    return max(map(relative_error, torch.split(ours, 1), torch.split(theirs, 1)))


if __name__ == "__main__":
    sys.exit(main())
