"""what would run for a problem, and why"""

from __future__ import annotations

import argparse

import torch

from .. import _library
from ..problem import NamedProblem, Problem, find_file
from . import model
from .gpu import measure_gpu_rates, require_gpu
from .listed import add_variants, named, variants
from .machine import measure_rates, roofline
from .modes import mode_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("problem", help='such as "n8 ci48 co24 96x96x96 k3 s1 p0", or a name of --problems')
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:1")
    add_variants(parser)
    parser.add_argument("--epilogue", default="", metavar="TEXT", help='such as "clamp(min=-1) div(2)"')
    parser.add_argument("--problems", default="baselines", metavar="FILE", help="of the names (default: baselines)")
    parser.add_argument("--no-measure", action="store_true", help="leave out the roofline, which takes a second")
    model.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    _library.require()
    if options.device.partition(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f"--device is cpu or cuda, got {options.device}: elsewhere PyTorch's operator computes")
    device = torch.device(options.device)
    cases = variants(_find(options.problem, options.problems), options)
    asked = model.asked_for(options)
    if asked is not None and device.type != "cuda":
        raise ValueError(f"--gpu and --arch go with --device cuda, got --device {options.device}")
    if asked is None and device.type == "cuda":
        require_gpu()
    for index, case in enumerate(cases):
        if index > 0:
            print()
        print(_explained(case.problem, options.epilogue, device, asked).rstrip())
        if asked is None and not options.no_measure:  # the roofline is measured, and another GPU may not be here
            print(_roofline(case.problem, device))
    return 0


def _explained(problem: Problem, epilogue: str, device: torch.device, asked: model.Model | None) -> str:
    if asked is not None:
        return asked.explain(problem, epilogue)
    if device.type == "cuda":
        return str(torch.ops.tconv3d.cuda_explain(str(problem), epilogue, device.index or 0))
    return str(torch.ops.tconv3d.explain(str(problem), epilogue))


def _roofline(problem: Problem, device: torch.device) -> str:
    if device.type != "cuda":
        return roofline(problem, measure_rates(problem.dtype), f"{torch.get_num_threads()} threads, {problem.dtype}")
    with torch.cuda.device(device):
        rates = measure_gpu_rates(mode_of(problem))
        return roofline(problem, rates, f"{torch.cuda.get_device_name()}, {mode_of(problem)}")


def _find(text: str, problems: str) -> NamedProblem:
    """A problem string has blanks, a name has none."""
    if " " in text.strip():
        return NamedProblem(text, Problem.parse(text), "")
    found = named(text, find_file(problems))
    if isinstance(found, str):
        raise ValueError(f"'{problems}' has no problem named '{text}': {found}")
    return found
