"""What the processes of test_cuda_exact.py do: one problem in every implementation, mode and layout.

Compiling is most of the time, so problems are shared out over processes; the compiled kernels meet in the disk cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

import tconv3d
from oracle import LAYOUTS, Inputs, integer_inputs, real_inputs
from problem_file import Problem

#: dtype, and whether PyTorch's switch allows tf32.
MODES = {
    "f32": (torch.float32, False),
    "tf32": (torch.float32, True),
    "f64": (torch.float64, False),
    "bf16": (torch.bfloat16, False),
    "f16": (torch.float16, False),
}
FORCE = "TCONV3D_CUDA_IMPL"


@dataclass
class Outcome:
    """What ran (implementation, mode, layout), and a line for each thing that was wrong."""

    ran: set[tuple[str, str, str]] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


#: The problem whose failure this process may not have survived: after a fault on the GPU every later call fails too.
_lost = ""


def run(check: Callable[[Problem], Outcome], problem: Problem) -> Outcome:
    """The check, with an exception as a failure of the problem that caused it."""
    global _lost
    if _lost:
        return Outcome(failures=[f"not run: its process failed before, at {_lost}"])
    try:
        return check(problem)
    except Exception as error:
        _lost = problem.name
        return Outcome(failures=[f"{type(error).__name__}: {error}"])


#: float64 is never channels_last_3d, as in PyTorch.
COMBINATIONS = [(mode, layout) for mode in MODES for layout in LAYOUTS if (mode, layout) != ("f64", "ndhwc")]


def sampled(problem: Problem) -> list[tuple[str, str]]:
    """One combination of so many, others for other problems: TCONV3D_TEST_EVERY=1 takes them all, for half an hour."""
    every = max(1, int(os.environ.get("TCONV3D_TEST_EVERY", "9")))
    return COMBINATIONS[sum(problem.name.encode()) % every :: every]


def switch(mode: str) -> None:
    torch.backends.cudnn.allow_tf32 = MODES[mode][1]


def on_gpu(inputs: Inputs, mode: str, layout: str) -> tuple[Tensor, Tensor, Tensor]:
    src, weight, bias, _ = inputs.cast(MODES[mode][0], LAYOUTS[layout])
    return src.cuda(), weight.cuda(), bias.cuda()


def each_implementation(mode: str, compute: Callable[[], Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The result of each implementation that accepts the problem."""
    switch(mode)
    for name in tconv3d._library.cuda_machine()["implementations"]:
        os.environ[FORCE] = name
        try:
            yield name, compute()
        except RuntimeError as error:
            if f"{FORCE}={name} cannot take" not in str(error):
                raise
        finally:
            del os.environ[FORCE]


def fwd(problem: Problem, tensors: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    return torch.ops.tconv3d.fwd(*tensors, *problem.settings, "", [])


def check_exact(problem: Problem) -> Outcome:
    """Integers: the exact result, rounded once to the dtype."""
    torch.set_num_threads(1)
    inputs = integer_inputs(problem)
    exact = F.conv_transpose3d(*inputs[:3], *problem.settings)
    outcome = Outcome()
    for mode, layout in sampled(problem):
        tensors = on_gpu(inputs, mode, layout)
        want = exact.to(MODES[mode][0])
        for name, dst in each_implementation(mode, lambda tensors=tensors: fwd(problem, tensors)):
            outcome.ran.add((name, mode, layout))
            got = dst.cpu()
            if got.shape != want.shape or not torch.equal(got, want):
                outcome.failures.append(f"{name} {mode} {layout}: {_difference(got, want)}")
    return outcome


def check_accuracy(problem: Problem) -> Outcome:
    """Real data: at most twice PyTorch's error, or in tf32 twice that of rounding the inputs, if that is larger."""
    torch.set_num_threads(1)
    outcome = Outcome()
    for mode, layout in COMBINATIONS:
        if mode == "f64":
            continue
        dtype = MODES[mode][0]
        inputs = Inputs(*(tensor.to(dtype).double() for tensor in real_inputs(problem)))
        exact = F.conv_transpose3d(*inputs[:3], *problem.settings)
        allowed = 2 * _allowed(problem, inputs, mode, exact) + torch.finfo(dtype).eps * _largest(exact)
        tensors = on_gpu(inputs, mode, layout)
        for name, dst in each_implementation(mode, lambda tensors=tensors: fwd(problem, tensors)):
            outcome.ran.add((name, mode, layout))
            error = _largest(dst.cpu().double() - exact)
            if not error <= allowed:
                outcome.failures.append(f"{name} {mode} {layout}: error {error:.2e}, allowed {allowed:.2e}")
    return outcome


def check_full_size(problem: Problem) -> Outcome:
    """Integers in the implementation that is chosen; the first and the last sample are compared."""
    outcome = Outcome()
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = (problem.src_shape, problem.weight_shape, (problem.co,))
    src, weight, bias = (torch.randint(-3, 4, shape, generator=generator, device="cuda").half() for shape in shapes)
    ends = (slice(0, 1), slice(-1, None))
    exact = [F.conv_transpose3d(src[end].double(), weight.double(), bias.double(), *problem.settings) for end in ends]
    for mode, layout in COMBINATIONS:
        if mode == "f64":
            continue
        switch(mode)
        dtype = MODES[mode][0]
        moved = src.to(dtype).contiguous(memory_format=LAYOUTS[layout])
        dst = fwd(problem, (moved, weight.to(dtype), bias.to(dtype)))
        outcome.ran.add(("", mode, layout))
        for end, want in zip(ends, exact):
            if not torch.equal(dst[end], want.round().to(dtype)):
                outcome.failures.append(f"{mode} {layout} sample {end.start}: {_difference(dst[end], want.to(dtype))}")
    torch.cuda.empty_cache()
    return outcome


def rounded_to_tf32(tensor: Tensor) -> Tensor:
    """To 10 bits of mantissa, halves away from zero, as the `cvt.rna.tf32` instruction does."""
    bits = tensor.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).double()


def _allowed(problem: Problem, inputs: Inputs, mode: str, exact: Tensor) -> float:
    """The error that counts as one: PyTorch's on this GPU, or on the CPU where its GPU operator has none."""
    switch(mode)
    try:
        theirs = F.conv_transpose3d(*on_gpu(inputs, mode, "ncdhw"), *problem.settings).cpu()
    except RuntimeError:
        theirs = F.conv_transpose3d(*inputs.cast(MODES[mode][0])[:3], *problem.settings)
    error = _largest(theirs.double() - exact)
    if mode != "tf32":
        return error
    rounded = F.conv_transpose3d(*map(rounded_to_tf32, inputs[:2]), inputs.bias, *problem.settings)
    return max(error, _largest(rounded - exact))


def _largest(tensor: Tensor) -> float:
    return tensor.double().abs().max().item() if tensor.numel() else 0.0


def _difference(got: Tensor, want: Tensor) -> str:
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}, not {tuple(want.shape)}"
    wrong = (got != want).nonzero()
    first = tuple(wrong[0].tolist())
    return f"{len(wrong)} of {want.numel()} differ, first at {first}: {got[first]}, not {want[first]}"
