"""a few telling problems: checked against PyTorch, timed beside it"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import ConvTranspose3d, Epilogue, _library
from ..problem import Problem
from . import usage
from .cases import TOLERANCE, relative_error
from .load import watched
from .machine import cores, cpu_model
from .table import table
from .timing import Timing, interleaved


@dataclass(frozen=True)
class Scene:
    title: str
    problem: Problem
    epilogue: Epilogue | None = None


_SCENES = [
    Scene("U-Net upsampling, k2 s2", Problem.parse("n2 ci64 co32 24x24x24 k2 s2")),
    Scene("U-Net decoder, k3 s2 op1", Problem.parse("n2 ci64 co32 14x14x14 k3 s2 p1 op1")),
    Scene(
        "KernelBench 2-100, clamp and div fused",
        Problem.parse("n2 ci64 co128 9x16x16 k3 s2 p1"),
        Epilogue().clamp(min=-1.0).div(2.0),
    ),
    Scene("3D-GAN generator, k4 s2", Problem.parse("n2 ci128 co64 8x8x8 k4 s2 p1")),
    Scene("depthwise upsampling, k4 s2", Problem.parse("n2 ci64 co64 16x16x16 k4 s2 p1 g64")),
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=usage.seconds, default=0.5, help="time for each measurement (default 0.5)")


def run(options: argparse.Namespace) -> int:
    machine = _library.machine()
    print(f"tconv3d {machine['version']} ({machine['isa']}) beside PyTorch {torch.__version__}")
    print(f"{cpu_model()}, {cores()} cores, {torch.get_num_threads()} threads\n")
    torch.manual_seed(0)
    columns = ["", "max error", "fwd PyTorch", "tconv3d", "speed-up", "training PyTorch", "tconv3d", "speed-up"]
    with watched(torch.get_num_threads()):
        shown = [_show(scene, options.seconds) for scene in _SCENES]
        print(table(columns, [cells for cells, _ in shown]), flush=True)
    print("\nmilliseconds; the training step is forward and all gradients; errors are relative to the largest value")
    if not all(agrees for _, agrees in shown):
        print(f"FAILED: an error is above the tolerance, {TOLERANCE['f32']:.0e}")
        return 1
    print("All results agree with PyTorch. Next: `tconv3d.accelerate(model)` on a model of yours.")
    return 0


def _show(scene: Scene, seconds: float) -> tuple[list[str], bool]:
    ours, theirs, src, grad_dst = _modules(scene)
    mine, reference = _train(ours, src, grad_dst), _train(theirs, src, grad_dst)
    with torch.no_grad():
        error = max(map(relative_error, mine, reference))
        forward = interleaved(lambda: ours(src), lambda: theirs(src), seconds, repeats=3)
    training = interleaved(
        lambda: _train(ours, src, grad_dst), lambda: _train(theirs, src, grad_dst), seconds, repeats=3
    )
    return [scene.title, f"{error:.0e}", *_cells(forward), *_cells(training)], error <= TOLERANCE["f32"]


def _modules(scene: Scene) -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    """tconv3d's module and PyTorch's, with the same parameters, an input and a gradient of the output."""
    problem = scene.problem
    channels = (problem.src_channels, problem.dst_channels)
    spatial = (problem.kernel, problem.stride, problem.padding, problem.output_padding)
    theirs = nn.ConvTranspose3d(*channels, *spatial, problem.groups)
    ours = ConvTranspose3d(*channels, *spatial, problem.groups, epilogue=scene.epilogue)
    ours.load_state_dict(theirs.state_dict())
    chain = [scene.epilogue] if scene.epilogue is not None else []
    src = torch.randn(problem.batch, problem.src_channels, *problem.src, requires_grad=True)
    with torch.no_grad():
        grad_dst = torch.randn_like(theirs(src))
    return ours, _Chain(theirs, *chain), src, grad_dst


class _Chain(nn.Module):
    """PyTorch's module, then the epilogue in PyTorch's operators."""

    def __init__(self, module: nn.Module, *steps: Epilogue) -> None:
        super().__init__()
        self.module, self.steps = module, steps

    def forward(self, src: Tensor) -> Tensor:
        dst: Tensor = self.module(src)
        for step in self.steps:
            dst = step(dst)
        return dst


def _train(module: nn.Module, src: Tensor, grad_dst: Tensor) -> list[Tensor]:
    """The output and the gradients of the input and of the parameters."""
    dst = module(src)
    return [dst, *torch.autograd.grad(dst, [src, *module.parameters()], grad_dst)]


def _cells(timing: Timing) -> list[str]:
    return [f"{timing.theirs_ms:.2f}", f"{timing.ours_ms:.2f}", f"{timing.speed_up:.2f}×"]
