"""Builds a KernelBench problem, checks it against plain PyTorch in double precision, and times modules in turns."""

from __future__ import annotations

import copy
import importlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import torch
from reference import free_extents, reference
from torch import Tensor, nn

SMALL_BATCH = 2
SMALL_FLOPS = 3e9
# Enough rounds for a steady median, and few enough that the full problems end on a CPU.
LEAST_ROUNDS, MOST_ROUNDS = 5, 100

# Keeps the GPU busy for a fraction of a millisecond, in which the host queues the timed call and its events.
HEAD_START_CYCLES = 1_000_000


@dataclass(frozen=True)
class Settings:
    device: str
    scale: str
    # How long the modules of a problem take turns.
    seconds: float
    # Whether torch.compile's modules are timed too.
    compile: bool


def load(problem: str, settings: Settings) -> ModuleType:
    """The problem's file, cut to the scale."""
    module = importlib.import_module(problem)
    if settings.scale == "small":
        shrink(problem, module)
    return module


def shrink(problem: str, module: ModuleType) -> None:
    """Cuts batch and extents until the problem has SMALL_FLOPS or less; all free extents by the same part."""
    weights = max(parameter.numel() for parameter in reference(problem, module.get_init_inputs()).parameters())
    module.batch_size = min(module.batch_size, SMALL_BATCH)
    # Each voxel of the input meets each weight once.
    while 2 * module.batch_size * module.depth * module.height * module.width * weights > SMALL_FLOPS:
        for name in free_extents(problem):
            setattr(module, name, math.ceil(getattr(module, name) * 3 / 4))


def build(make: Callable[[], nn.Module], device: str, seed: int = 0) -> nn.Module:
    """The same seed gives both modules the same parameters: KernelBench's convention, as is the mode of training."""
    torch.manual_seed(seed)
    return make().to(device)


def build_plain(problem: str, module: ModuleType, device: str) -> nn.Module:
    return build(lambda: reference(problem, module.get_init_inputs()), device)


def make_inputs(module: ModuleType, device: str, seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    with torch.device(device):
        return module.get_inputs()


def check_parameters(model: nn.Module, plain: nn.Module) -> None:
    state, plain_state = model.state_dict(), plain.state_dict()
    if state.keys() != plain_state.keys():
        raise SystemExit(f"parameters {list(state)} where PyTorch's module has {list(plain_state)}")
    for name, value in state.items():
        if not torch.equal(value, plain_state[name]):
            raise SystemExit(f"the same seed gave another {name} than in PyTorch's module")


@dataclass(frozen=True)
class Errors:
    """The largest errors against fp64, and the one allowed: twice PyTorch's and a rounding unit of the largest value.

    The bound goes by PyTorch's own error, so that small values (level 2, problem 38) are checked as strictly as others.
    """

    error: float
    torch_error: float
    allowed_error: float

    @property
    def excess(self) -> float:
        """How much of the allowed error was used; NaN is worse than any number."""
        return math.inf if math.isnan(self.error) else self.error / self.allowed_error


#: A module of ours and PyTorch's in the same form: both as they come, or both compiled.
Pair = tuple[nn.Module, nn.Module]


def errors(pairs: Sequence[Pair], plain: nn.Module, inputs: Sequence[Tensor]) -> Errors:
    """Those of the worst pair."""
    exact = in_double(plain, inputs)
    # What rounding to tf32 costs, where PyTorch may do so: on a GPU, unless it is told not to.
    tf32 = exact.is_cuda and torch.backends.cudnn.allow_tf32
    tf32_error = largest(in_double(plain, inputs, tf32=True) - exact) if tf32 else 0.0
    rounding = torch.finfo(inputs[0].dtype).eps * largest(exact)
    found = []
    for ours, theirs in pairs:
        error, torch_error = (error_of(each(*inputs), exact) for each in (ours, theirs))
        found.append(Errors(error, torch_error, 2 * max(torch_error, tf32_error) + rounding))
    return max(found, key=lambda each: each.excess)


def error_of(result: Tensor, exact: Tensor) -> float:
    if result.shape != exact.shape:
        raise SystemExit(f"output shape {tuple(result.shape)} where PyTorch gives {tuple(exact.shape)}")
    return largest(result - exact)


class DoubleConvolution(nn.Module):
    """One sample at a time: what a GPU needs in fp64 for a whole batch may not fit into its memory."""

    def __init__(self, convolution: nn.ConvTranspose3d, tf32: bool) -> None:
        super().__init__()
        self.convolution = convolution
        self.tf32 = tf32
        if tf32:
            convolution.weight.data = rounded_to_tf32(convolution.weight)

    def forward(self, x: Tensor) -> Tensor:
        samples = torch.split(rounded_to_tf32(x) if self.tf32 else x, 1)
        return torch.cat([self.convolution(sample) for sample in samples])


def in_double(plain: nn.Module, inputs: Sequence[Tensor], tf32: bool = False) -> Tensor:
    """What `plain` computes in fp64; with `tf32` the convolution's input and weight are rounded before."""
    double = copy.deepcopy(plain).double()
    for name, child in list(double.named_children()):
        if isinstance(child, nn.ConvTranspose3d):
            setattr(double, name, DoubleConvolution(child, tf32))
    return double(*(x.double() for x in inputs))


def rounded_to_tf32(x: Tensor) -> Tensor:
    """To 10 bits of mantissa, halves away from zero."""
    bits = (x.float().contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
    return bits.view(torch.float32).to(x.dtype)


def largest(x: Tensor) -> float:
    return x.abs().max().item()


def interleaved_medians(calls: Mapping[str, Callable[[], Tensor]], settings: Settings) -> dict[str, float]:
    """Milliseconds by name. The calls take turns, so that a change in the machine's speed meets all of them.

    The warm-up compiles and searches. A call that fails there is named on stderr and left out.
    """
    running = {name: call for name, call in calls.items() if runs(name, call, settings.device)}
    samples: dict[str, list[float]] = {name: [] for name in running}
    end = time.perf_counter() + settings.seconds
    rounds = 0
    while rounds < LEAST_ROUNDS or (time.perf_counter() < end and rounds < MOST_ROUNDS):
        for name, call in running.items():
            samples[name].append(milliseconds(call, settings.device))
        rounds += 1
    return {name: statistics.median(times) for name, times in samples.items()}


def runs(name: str, call: Callable[[], Tensor], device: str) -> bool:
    try:
        milliseconds(call, device)
        return True
    except Exception as error:  # torch.compile and cuDNN raise their own kinds.
        print(f"{name} failed: {type(error).__name__}: {error}", file=sys.stderr)
        return False


def milliseconds(call: Callable[[], Tensor], device: str) -> float:
    return gpu_milliseconds(call) if device == "cuda" else host_milliseconds(call)


def host_milliseconds(call: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def gpu_milliseconds(call: Callable[[], Tensor]) -> float:
    """All that the forward runs on the GPU, without the time in which the GPU would wait for Python."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(HEAD_START_CYCLES)
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)
