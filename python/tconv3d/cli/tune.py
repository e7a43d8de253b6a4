"""measure which of the GPU's kernels is the fastest for a problem, and remember it"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from .. import _library
from ..problem import NamedProblem, Problem
from . import listed, usage
from .cases import make_tensors, tconv3d_call
from .environment import environment
from .gpu import measure, require_gpu, sets_past_l2
from .modes import mode_of, switch_tf32
from .record import Record


@dataclass(frozen=True)
class Candidate:
    implementation: str
    variant: str

    def __str__(self) -> str:
        return f"{self.implementation}: {self.variant}" if self.variant else self.implementation

    @contextmanager
    def forced(self) -> Iterator[None]:
        """Plans that are made meanwhile take this candidate."""
        with environment({"TCONV3D_CUDA_IMPL": self.implementation, "TCONV3D_CUDA_VARIANT": self.variant}):
            yield


def add_arguments(parser: argparse.ArgumentParser) -> None:
    listed.add_arguments(parser)
    parser.add_argument("--seconds", type=usage.seconds, default=0.1, help="for each candidate (default 0.1)")
    parser.add_argument(
        "--record",
        type=usage.output,
        metavar="FILE",
        help="only append the times to FILE as JSON lines, and remember nothing",
    )


def run(options: argparse.Namespace) -> int:
    _library.require()
    require_gpu()
    cases = listed.listed(options)
    print(f"{len(cases)} problems on {torch.cuda.get_device_name()}")
    if options.record is None:
        for problem in _each_problem(cases):
            _remember_fastest(problem, dict(_times(problem, options.seconds)))
        return 0
    device = _library.cuda_machine()["devices"][torch.cuda.current_device()]
    with Record(options.record, device) as record:
        for problem in _each_problem(cases):
            for candidate, ms in _times(problem, options.seconds):
                record.add(problem, candidate.implementation, candidate.variant, ms)
    return 0


def _each_problem(cases: list[NamedProblem]) -> Iterator[Problem]:
    for index, case in enumerate(cases, start=1):
        print(f"[{index:>3}/{len(cases)}] {case.name}", flush=True)
        yield case.problem
        torch.cuda.empty_cache()


def candidates(problem: Problem) -> list[Candidate]:
    """The best by estimate first."""
    found = json.loads(torch.ops.tconv3d.cuda_candidates(str(problem), "", torch.cuda.current_device()))
    return [Candidate(**fields) for fields in found]


def _times(problem: Problem, seconds: float) -> Iterator[tuple[Candidate, float]]:
    """Each candidate that runs, and its milliseconds."""
    switch_tf32(mode_of(problem))
    sets = sets_past_l2(float(problem.facts()["bytes"]))
    tensors = [make_tensors(problem, "cuda") for _ in range(sets)]
    for candidate in candidates(problem):
        with candidate.forced(), torch.no_grad():
            try:
                measured = measure(lambda i: tconv3d_call(problem, *tensors[i]), sets, seconds, repeats=5)
            except RuntimeError as error:  # the others go on
                print(f"      failed      {candidate}: {str(error).splitlines()[0]}", flush=True)
                continue
        print(f"      {measured.ms:8.4f} ms  {candidate}", flush=True)
        yield candidate, measured.ms


def _remember_fastest(problem: Problem, times: dict[Candidate, float]) -> None:
    if not times:
        raise RuntimeError(f"no candidate could be measured for {problem}")
    fastest = min(times, key=lambda candidate: times[candidate])
    torch.ops.tconv3d.cuda_remember(str(problem), torch.cuda.current_device(), fastest.implementation, fastest.variant)
    gain = next(iter(times.values())) / times[fastest]
    print(f"      remembered: {fastest}, {gain:.2f}x as fast as the best by estimate", flush=True)
