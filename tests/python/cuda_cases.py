"""What the processes of test_cuda_exact.py do: one problem in every implementation, mode, layout and direction.

Compiling is most of the time, so problems are shared out over processes; the compiled kernels meet in the disk cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import tconv3d
from oracle import LAYOUTS, Inputs, Results, integer_inputs, pytorch, real_inputs
from problem_file import Problem

#: dtype, and whether PyTorch's switch allows tf32.
MODES = {
    "f32": (torch.float32, False),
    "tf32": (torch.float32, True),
    "f64": (torch.float64, False),
    "bf16": (torch.bfloat16, False),
    "f16": (torch.float16, False),
}
#: By direction, the results that it has.
DIRECTIONS = {"fwd": ["dst"], "bwd_data": ["grad_src"], "bwd_weight": ["grad_weight", "grad_bias"]}
FORCE = "TCONV3D_CUDA_IMPL"
GRADIENTS = "TCONV3D_CUDA_GRADIENTS"


@dataclass
class Outcome:
    """What ran (implementation, mode, layout, direction), and a line for each thing that was wrong."""

    ran: set[tuple[str, str, str, str]] = field(default_factory=set)
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


def on_gpu(inputs: Inputs, mode: str, layout: str) -> Inputs:
    return Inputs(*(tensor.cuda() for tensor in inputs.cast(MODES[mode][0], LAYOUTS[layout])))


def each_implementation(mode: str, compute: Callable[[], list[Tensor]]) -> Iterator[tuple[str, list[Tensor]]]:
    """The results of each implementation that accepts the problem."""
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


def compute(direction: str, problem: Problem, inputs: Inputs) -> list[Tensor]:
    ops = torch.ops.tconv3d
    if direction == "fwd":
        return [ops.fwd(inputs.src, inputs.weight, inputs.bias, *problem.settings, "")]
    if direction == "bwd_data":
        return [ops.bwd_data(inputs.grad_dst, inputs.weight, *problem.settings)]
    return list(ops.bwd_weight(inputs.src, inputs.grad_dst, problem.k, *problem.settings, True))


def each_result(problem: Problem, inputs: Inputs, mode: str, layout: str) -> Iterator[tuple[str, str, str, Tensor]]:
    """Implementation, direction, name and value, for each implementation and each direction that it accepts."""
    tensors = on_gpu(inputs, mode, layout)
    for direction, names in DIRECTIONS.items():
        for implementation, results in each_implementation(mode, partial(compute, direction, problem, tensors)):
            for name, result in zip(names, results):
                yield implementation, direction, name, result.cpu()


def check_exact(problem: Problem) -> Outcome:
    """Integers: the exact results, rounded once to the dtype."""
    torch.set_num_threads(1)
    inputs = integer_inputs(problem)
    exact = pytorch(problem, inputs)
    outcome = Outcome()
    for mode, layout in sampled(problem):
        for implementation, direction, name, got in each_result(problem, inputs, mode, layout):
            outcome.ran.add((implementation, mode, layout, direction))
            want = getattr(exact, name).to(MODES[mode][0])
            if got.shape != want.shape or not torch.equal(got, want):
                outcome.failures.append(f"{implementation} {mode} {layout} {name}: {_difference(got, want)}")
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
        exact = pytorch(problem, inputs)
        errors = _pytorchs_errors(problem, inputs, mode, exact)
        for implementation, direction, name, got in each_result(problem, inputs, mode, layout):
            outcome.ran.add((implementation, mode, layout, direction))
            want = getattr(exact, name)
            error = _largest(got.double() - want)
            allowed = 2 * errors[name] + torch.finfo(dtype).eps * _largest(want)
            if not error <= allowed:
                what = f"{implementation} {mode} {layout} {name}"
                outcome.failures.append(f"{what}: error {error:.2e}, allowed {allowed:.2e}")
    return outcome


def check_full_size(problem: Problem) -> Outcome:
    """Integers in the implementation that is chosen; the first and the last sample are compared."""
    outcome = Outcome()
    generator = torch.Generator("cuda").manual_seed(0)
    shapes = (problem.src_shape, problem.weight_shape, (problem.co,), problem.dst_shape)
    inputs = Inputs(*(torch.randint(-3, 4, shape, generator=generator, device="cuda").half() for shape in shapes))
    for direction, exact in (("fwd", _exact_dst), ("bwd_data", _exact_grad_src)):
        ends = {end: exact(problem, inputs, end) for end in (slice(0, 1), slice(-1, None))}
        for mode, layout in COMBINATIONS:
            if mode == "f64":
                continue
            switch(mode)
            dtype = MODES[mode][0]
            with own_gradients():
                (got,) = compute(direction, problem, on_gpu(inputs, mode, layout))
            outcome.ran.add(("", mode, layout, direction))
            for end, want in ends.items():
                if not torch.equal(got[end], want.round().to(dtype)):
                    wrong = _difference(got[end], want.to(dtype))
                    outcome.failures.append(f"{mode} {layout} {direction} sample {end.start}: {wrong}")
    torch.cuda.empty_cache()
    return outcome


@contextmanager
def own_gradients() -> Iterator[None]:
    """Has tconv3d's own kernels compute gradients, chosen by their estimates."""
    os.environ[GRADIENTS] = "1"
    try:
        yield
    finally:
        del os.environ[GRADIENTS]


def _exact_dst(problem: Problem, inputs: Inputs, samples: slice) -> Tensor:
    src, weight, bias = inputs.src[samples].double(), inputs.weight.double(), inputs.bias.double()
    return F.conv_transpose3d(src, weight, bias, *problem.settings)


def _exact_grad_src(problem: Problem, inputs: Inputs, samples: slice) -> Tensor:
    """A convolution with the same parameters, but for outputs that output_padding adds."""
    s, p, _, g, d = problem.settings
    grad_src = F.conv3d(inputs.grad_dst[samples].double(), inputs.weight.double(), None, s, p, d, g)
    depth, height, width = problem.src
    return grad_src[..., :depth, :height, :width]


def rounded_to_tf32(tensor: Tensor) -> Tensor:
    """To 10 bits of mantissa, halves away from zero, as the `cvt.rna.tf32` instruction does."""
    bits = tensor.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).double()


def _pytorchs_errors(problem: Problem, inputs: Inputs, mode: str, exact: Results) -> dict[str, float]:
    """By result: PyTorch's error on this GPU, or on the CPU where its GPU operators do not take the problem."""
    switch(mode)
    try:
        theirs = pytorch(problem, on_gpu(inputs, mode, "ncdhw"))
    except RuntimeError:
        theirs = pytorch(problem, inputs.cast(MODES[mode][0]))
    errors = _errors(theirs, exact)
    if mode != "tf32":
        return errors
    src, weight, grad_dst = map(rounded_to_tf32, (inputs.src, inputs.weight, inputs.grad_dst))
    rounded = _errors(pytorch(problem, Inputs(src, weight, inputs.bias, grad_dst)), exact)
    return {name: max(error, rounded[name]) for name, error in errors.items()}


def _errors(results: Results, exact: Results) -> dict[str, float]:
    """A result that is nonsense, as some of PyTorch's gradients in bf16 are, has no error to allow twice of."""
    errors = {}
    for name, result, want in zip(Results._fields, results, exact):
        error = _largest(result.cpu().double() - want)
        errors[name] = error if error < _largest(want) else 0.0
    return errors


def _largest(tensor: Tensor) -> float:
    return tensor.double().abs().max().item() if tensor.numel() else 0.0


def _difference(got: Tensor, want: Tensor) -> str:
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}, not {tuple(want.shape)}"
    wrong = (got != want).nonzero()
    first = tuple(wrong[0].tolist())
    return f"{len(wrong)} of {want.numel()} differ, first at {first}: {got[first]}, not {want[first]}"
