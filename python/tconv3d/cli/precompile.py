"""compile the GPU kernels of problems ahead of time, into the disk cache"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import _library
from ..problem import DTYPES, Problem
from . import listed, model
from .cases import make_tensors, parameters
from .environment import own_gradients
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
    machine = _library.cuda_machine()
    cache, nvrtc = machine["cache"], machine["nvrtc"]
    if not cache["folder"]:
        raise RuntimeError(f"there is no cache to compile into: {cache['reason']}")
    if not nvrtc["available"]:
        raise RuntimeError(str(nvrtc["reason"]))
    print(f"{len(cases)} problems for {gpu}, by NVRTC {nvrtc['version']}, into {cache['folder']}")
    gradients = any(case.problem.direction != "fwd" for case in cases)
    with own_gradients() if gradients else nullcontext():
        for index, case in enumerate(cases, start=1):
            print(f"[{index:>3}/{len(cases)}] {case.name}: ", end="", flush=True)
            print(_counted(partial(compile_problem, case.problem, _epilogue(case.problem, options))), flush=True)
    return 0


def _epilogue(problem: Problem, options: argparse.Namespace) -> str:
    """An epilogue belongs to fwd."""
    return str(options.epilogue) if problem.direction == "fwd" else ""


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
    """Runs the problem; what is compiled for fwd depends on bias and on whether backward will follow."""
    switch_tf32(mode_of(problem))
    calls = _fwd_calls(problem, epilogue) if problem.direction == "fwd" else _gradient_calls(problem)
    seconds = []
    for call in calls:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    del calls
    torch.cuda.empty_cache()
    return f"first call {seconds[0] * 1e3:.0f} ms, "


def _fwd_calls(problem: Problem, epilogue: str) -> list[Callable[[], Any]]:
    """For inference and training, with and without bias, and the way back through the epilogue."""
    (src, weight), operands, ops = make_tensors(problem, "cuda"), _operands(problem, epilogue), torch.ops.tconv3d
    calls: list[Callable[[], Any]] = []
    for bias in (None, _zeros(problem, (problem.dst_channels,))):
        arguments = (src, weight, bias, *parameters(problem), epilogue, operands)
        calls += [partial(ops.fwd, *arguments), partial(ops.fwd_saved, *arguments)]
    if epilogue:
        dst = ops.fwd(src, weight, None, *parameters(problem), "")
        calls += [partial(ops.epilogue_bwd, dst, dst, epilogue, operands, with_bias) for with_bias in (False, True)]
    return calls


def _gradient_calls(problem: Problem) -> list[Callable[[], Any]]:
    """The gradient of the weight with that of the bias and without."""
    src, weight, grad_dst = make_tensors(problem, "cuda")
    if problem.direction == "bwd_data":
        return [partial(torch.ops.tconv3d.bwd_data, grad_dst, weight, *parameters(problem))]
    arguments = (src, grad_dst, list(problem.kernel), *parameters(problem))
    return [partial(torch.ops.tconv3d.bwd_weight, *arguments, with_bias) for with_bias in (False, True)]


def _operands(problem: Problem, epilogue: str) -> list[Tensor]:
    dst = (problem.batch, problem.dst_channels, *problem.facts()["dst"])
    steps = [step for step in epilogue.split() if step.startswith(("channel_", "residual_"))]
    return [_zeros(problem, dst if step.startswith("residual_") else dst[1:2]) for step in steps]


def _zeros(problem: Problem, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(shape, dtype=DTYPES[problem.dtype], device="cuda")
