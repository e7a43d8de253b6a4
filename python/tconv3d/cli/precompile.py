"""compile the GPU kernels of problems ahead of time, into the disk cache"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import _library
from ..problem import DTYPES, LAYOUTS, Problem
from . import listed, model
from .cases import parameters
from .gpu import require_gpu
from .modes import mode_of, switch_tf32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    listed.add_arguments(parser)
    parser.add_argument("--epilogue", default="", metavar="TEXT", help='such as "clamp(min=-1) div(2)"')
    model.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    _library.require()
    asked = model.asked_for(options)
    cases = listed.listed(options)
    if asked is None:
        require_gpu()
    gpu = torch.cuda.get_device_name() if asked is None else str(asked)
    compile_problem = _run if asked is None else partial(_compile_for, asked)
    cache = _cache()
    if not cache["folder"]:
        raise RuntimeError(f"there is no cache to compile into: {cache['reason']}")
    print(f"{len(cases)} problems for {gpu}, into {cache['folder']}")
    for index, case in enumerate(cases, start=1):
        print(f"[{index:>3}/{len(cases)}] {case.name}: ", end="", flush=True)
        print(_counted(partial(compile_problem, case.problem, options.epilogue)), flush=True)
    return 0


def _cache() -> dict[str, Any]:
    cache: dict[str, Any] = _library.cuda_machine()["cache"]
    return cache


def _counted(compile_problem: Callable[[], str]) -> str:
    """What `compile_problem` has added to the cache, and what it says."""
    before, begin = _cache(), time.perf_counter()
    said = compile_problem()
    seconds, after = time.perf_counter() - begin, _cache()
    compiled, stored, found = (after[key] - before[key] for key in ("misses", "stores", "hits"))
    if stored < compiled:
        raise RuntimeError(f"{compiled - stored} of {compiled} kernels could not be kept: {after['last_failure']}")
    return f"{compiled} compiled, {found} from the cache, {said}all {seconds:.2f} s"


def _compile_for(asked: model.Model, problem: Problem, epilogue: str) -> str:
    asked.compile(problem, epilogue)
    return ""


def _run(problem: Problem, epilogue: str) -> str:
    """Runs the problem, for inference and training, with and without bias: what is compiled depends on each."""
    switch_tf32(mode_of(problem))
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
    return f"first call {seconds[0] * 1e3:.0f} ms, "


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
