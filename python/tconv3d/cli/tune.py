"""measure which of the GPU's kernels is the fastest for a problem, and remember it"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from .. import _library
from ..problem import Problem
from . import listed
from .cases import gpu_tensors, tconv3d_fwd
from .gpu import measure, require_gpu, sets_past_l2
from .modes import mode_of, switch_tf32


@dataclass(frozen=True)
class Candidate:
    implementation: str
    variant: str

    def __str__(self) -> str:
        return f"{self.implementation}: {self.variant}" if self.variant else self.implementation

    @contextmanager
    def forced(self) -> Iterator[None]:
        """Plans that are made meanwhile take this candidate."""
        names = {"TCONV3D_CUDA_IMPL": self.implementation, "TCONV3D_CUDA_VARIANT": self.variant}
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(names)
        try:
            yield
        finally:
            for name in names:
                del os.environ[name]
            os.environ.update({name: value for name, value in before.items() if value is not None})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    listed.add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each candidate (default 0.1)")


def run(options: argparse.Namespace) -> int:
    _library.require()
    require_gpu()
    cases = listed.listed(options)
    print(f"{len(cases)} problems on {torch.cuda.get_device_name()}")
    for index, case in enumerate(cases, start=1):
        print(f"[{index:>3}/{len(cases)}] {case.name}", flush=True)
        _tune(case.problem, options.seconds)
        torch.cuda.empty_cache()
    return 0


def candidates(problem: Problem) -> list[Candidate]:
    """The best by estimate first."""
    found = json.loads(torch.ops.tconv3d.cuda_candidates(str(problem), "", torch.cuda.current_device()))
    return [Candidate(**fields) for fields in found]


@torch.no_grad()
def _tune(problem: Problem, seconds: float) -> None:
    switch_tf32(mode_of(problem))
    sets = sets_past_l2(float(problem.facts()["bytes"]))
    tensors = [gpu_tensors(problem) for _ in range(sets)]
    times: dict[Candidate, float] = {}
    for candidate in candidates(problem):
        with candidate.forced():
            try:
                measured = measure(lambda i: tconv3d_fwd(problem, *tensors[i]), sets, seconds, repeats=5)
            except RuntimeError as error:  # the others go on
                print(f"      failed      {candidate}: {str(error).splitlines()[0]}", flush=True)
                continue
        times[candidate] = measured.ms
        print(f"      {measured.ms:8.4f} ms  {candidate}", flush=True)
    if not times:
        raise RuntimeError(f"no candidate could be measured for {problem}")
    fastest = min(times, key=lambda candidate: times[candidate])
    torch.ops.tconv3d.cuda_remember(str(problem), torch.cuda.current_device(), fastest.implementation, fastest.variant)
    gain = next(iter(times.values())) / times[fastest]
    print(f"      remembered: {fastest}, {gain:.2f}x as fast as the best by estimate", flush=True)
