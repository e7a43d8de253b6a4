"""compile the GPU kernels of problems ahead of time, into the disk cache"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from .. import _library
from ..problem import DTYPES, LAYOUTS, Problem
from . import listed
from .cases import parameters
from .gpu import require_gpu
from .modes import mode_of, switch_tf32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    listed.add_arguments(parser)
    parser.add_argument("--epilogue", default="", metavar="TEXT", help='such as "clamp(min=-1) div(2)"')


def run(options: argparse.Namespace) -> int:
    _library.require()
    require_gpu()
    cases = listed.listed(options)
    folder = _library.cuda_machine()["cache"]["folder"]
    print(f"{len(cases)} problems for {torch.cuda.get_device_name()}, into {folder or 'no cache'}")
    for index, case in enumerate(cases, start=1):
        print(f"[{index:>3}/{len(cases)}] {case.name}: {_compile(case.problem, options.epilogue)}", flush=True)
    return 0


def _compile(problem: Problem, epilogue: str) -> str:
    """Runs the problem, for inference and training, with and without bias: what is compiled depends on each."""
    switch_tf32(mode_of(problem))
    before = _library.cuda_machine()["cache"]
    src, weight, operands = _src(problem), _weight(problem), _operands(problem, epilogue)
    seconds = []
    for bias in (None, _zeros(problem, (problem.dst_channels,))):
        arguments = (src, weight, bias, *parameters(problem), epilogue, operands)
        for call in (torch.ops.tconv3d.fwd, torch.ops.tconv3d.fwd_saved):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call(*arguments)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
    torch.cuda.empty_cache()
    after = _library.cuda_machine()["cache"]
    compiled, found = (after[key] - before[key] for key in ("misses", "hits"))
    first = f"first call {seconds[0] * 1e3:.0f} ms"
    return f"{compiled} compiled, {found} from the cache, {first}, all {sum(seconds):.2f} s"


def _src(problem: Problem) -> Tensor:
    src = _zeros(problem, (problem.batch, problem.src_channels, *problem.src))
    return src.contiguous(memory_format=LAYOUTS[problem.layout])


def _weight(problem: Problem) -> Tensor:
    return _zeros(problem, (problem.src_channels, problem.dst_channels // problem.groups, *problem.kernel))


def _operands(problem: Problem, epilogue: str) -> list[Tensor]:
    dst = (problem.batch, problem.dst_channels, *problem.facts()["dst"])
    steps = [step for step in epilogue.split() if step.startswith(("channel_", "residual_"))]
    return [_zeros(problem, dst if step.startswith("residual_") else dst[1:2]) for step in steps]


def _zeros(problem: Problem, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(shape, dtype=DTYPES[problem.dtype], device="cuda")
