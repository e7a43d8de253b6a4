"""A model of a GPU, for commands that need none: `--gpu h200`, `--arch sm_90`."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

import torch

from ..problem import Problem


@dataclass(frozen=True)
class Model:
    """Which GPU to plan for; with 0 multiprocessors, as many as the model has."""

    gpu: str
    multiprocessors: int

    def __str__(self) -> str:
        """RuntimeError, with all names, when there is no such model."""
        facts = json.loads(torch.ops.tconv3d.cuda_model(self.gpu, self.multiprocessors))
        return f"{facts['name']}, sm_{facts['sm']}, {facts['multiprocessors']} multiprocessors"

    def explain(self, problem: Problem, epilogue: str) -> str:
        return str(torch.ops.tconv3d.cuda_model_explain(str(problem), epilogue, self.gpu, self.multiprocessors))

    def compile(self, problem: Problem, epilogue: str) -> None:
        torch.ops.tconv3d.cuda_model_compile(str(problem), epilogue, self.gpu, self.multiprocessors)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("without a GPU", "plans and compiles for a GPU that need not be in this machine")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--gpu", metavar="NAME", help="such as h200, a100 or rtx4090; another name lists them all")
    which.add_argument("--arch", metavar="sm_90", help="the most common GPU of that architecture")
    group.add_argument("--multiprocessors", type=int, default=0, metavar="N", help="in place of the model's")


def asked_for(options: argparse.Namespace) -> Model | None:
    """None: the GPU of this machine."""
    gpu = options.gpu or options.arch
    if options.arch is not None and not options.arch.startswith("sm_"):
        raise ValueError(f"--arch takes an architecture such as sm_90, got '{options.arch}'; --gpu takes a name")
    if gpu is None:
        if options.multiprocessors:
            raise ValueError("--multiprocessors goes with --gpu or --arch")
        return None
    return Model(gpu.lower(), options.multiprocessors)
