"""Checks the KernelBench problems against plain PyTorch and times both, side by side in one process.

python kernelbench/run.py [--problem 70 L2-100 ...] [--device cpu|cuda] [--scale small|full] [--json FILE]

On a GPU, PyTorch is also timed with cudnn.benchmark, in a process of its own.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType

import torch
from reference import PROBLEMS, reference
from torch import Tensor, nn

SMALL_BATCH = 2
SMALL_FLOPS = 3e9
TRIALS = 3
# Enough rounds for a steady median, and few enough that the full problems end on a CPU.
TIMED_SECONDS = 2.0
LEAST_ROUNDS, MOST_ROUNDS = 5, 100

# Keeps the GPU busy for a fraction of a millisecond, in which the host queues the timed call and its events.
HEAD_START_CYCLES = 1_000_000

HEADER = "problem     input                 PyTorch ms    tuned ms  tconv3d ms   speedup     error PyTorch err"


@dataclass
class Result:
    problem: str
    shape: list[int]
    error: float
    torch_error: float
    allowed_error: float
    torch_ms: float
    tconv3d_ms: float
    # PyTorch with cudnn.benchmark; None on the CPU.
    tuned_ms: float | None = None

    @property
    def best_ms(self) -> float:
        """PyTorch's, as it comes or tuned."""
        return min(self.torch_ms, self.tuned_ms or math.inf)

    @property
    def speedup_over_best(self) -> float:
        return self.best_ms / self.tconv3d_ms

    @property
    def passed(self) -> bool:
        return self.error <= self.allowed_error

    @property
    def speedup(self) -> float:
        return self.torch_ms / self.tconv3d_ms


def build(make: Callable[[], nn.Module], device: str, seed: int = 0) -> nn.Module:
    """The same seed gives both modules the same parameters: KernelBench's convention."""
    torch.manual_seed(seed)
    return make().to(device).eval()


def check_parameters(model: nn.Module, plain: nn.Module) -> None:
    state, plain_state = model.state_dict(), plain.state_dict()
    if state.keys() != plain_state.keys():
        raise SystemExit(f"parameters {list(state)} where PyTorch's module has {list(plain_state)}")
    for name, value in state.items():
        if not torch.equal(value, plain_state[name]):
            raise SystemExit(f"the same seed gave another {name} than in PyTorch's module")


def shrink(module: ModuleType, model: nn.Module) -> None:
    """Cuts the module's batch and extents, keeping their proportions, until the problem has SMALL_FLOPS or less."""
    weights = max(parameter.numel() for parameter in model.parameters())
    module.batch_size = min(module.batch_size, SMALL_BATCH)
    # Each voxel of the input meets each weight once.
    while 2 * module.batch_size * module.depth * module.height * module.width * weights > SMALL_FLOPS:
        for name in ("depth", "height", "width"):
            setattr(module, name, math.ceil(getattr(module, name) * 3 / 4))


def errors(model: nn.Module, plain: nn.Module, inputs: Sequence[Tensor]) -> tuple[float, float, float]:
    """The largest errors of both against fp64, and the one allowed: twice PyTorch's and a rounding unit."""
    exact = in_double(plain, inputs)
    result = model(*inputs)
    if result.shape != exact.shape:
        raise SystemExit(f"output shape {tuple(result.shape)} where PyTorch gives {tuple(exact.shape)}")
    error = largest(result - exact)
    torch_error = largest(plain(*inputs) - exact)
    rounding = torch.finfo(result.dtype).eps * largest(exact)
    return error, torch_error, 2 * max(torch_error, tf32_error(plain, inputs, exact)) + rounding


def in_double(plain: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
    """One sample at a time: what a GPU needs in fp64 for a whole batch may not fit into its memory."""
    double = copy.deepcopy(plain).double()
    samples = zip(*(torch.split(x, 1) for x in inputs))
    return torch.cat([double(*(x.double() for x in sample)) for sample in samples])


def tf32_error(plain: nn.Module, inputs: Sequence[Tensor], exact: Tensor) -> float:
    """What rounding inputs and weights to tf32 costs, where PyTorch may do so: on a GPU, unless it is told not to."""
    if not exact.is_cuda or not torch.backends.cudnn.allow_tf32:
        return 0.0
    rounded = copy.deepcopy(plain)
    for parameter in rounded.parameters():
        if parameter.dim() > 1:
            parameter.copy_(rounded_to_tf32(parameter))
    return largest(in_double(rounded, [rounded_to_tf32(x) for x in inputs]) - exact)


def rounded_to_tf32(x: Tensor) -> Tensor:
    """To 10 bits of mantissa, halves away from zero."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def largest(x: Tensor) -> float:
    return x.abs().max().item()


def excess(found: tuple[float, float, float]) -> float:
    """How much of the allowed error was used; NaN is worse than any number."""
    error, _, allowed = found
    return math.inf if math.isnan(error) else error / allowed


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


def interleaved_medians(calls: Sequence[Callable[[], Tensor]], device: str) -> list[float]:
    """Milliseconds. The calls take turns, so that a change in the machine's speed meets all of them."""
    for call in calls:
        milliseconds(call, device)
    samples: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + TIMED_SECONDS
    while len(samples[0]) < LEAST_ROUNDS or (time.perf_counter() < end and len(samples[0]) < MOST_ROUNDS):
        for call, times in zip(calls, samples):
            times.append(milliseconds(call, device))
    return [statistics.median(times) for times in samples]


def make_inputs(module: ModuleType, device: str, seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    with torch.device(device):
        return module.get_inputs()


@torch.no_grad()
def run_problem(problem: str, device: str, scale: str) -> Result:
    module = importlib.import_module(problem)
    init_inputs = module.get_init_inputs()
    model = build(lambda: module.ModelNew(*init_inputs), device)
    plain = build(lambda: reference(problem, init_inputs), device)
    check_parameters(model, plain)
    if scale == "small":
        shrink(module, model)

    trials = []
    for trial in range(TRIALS):
        inputs = make_inputs(module, device, 1 + trial)
        trials.append(errors(model, plain, inputs))
    worst = max(trials, key=excess)
    torch_ms, tconv3d_ms = interleaved_medians([lambda: plain(*inputs), lambda: model(*inputs)], device)
    return Result(problem, list(inputs[0].shape), *worst, torch_ms, tconv3d_ms)


@torch.no_grad()
def time_tuned(problem: str, scale: str) -> float:
    """PyTorch's module after cuDNN's search, which must meet these extents before any other call of them."""
    torch.backends.cudnn.benchmark = True
    module = importlib.import_module(problem)
    plain = build(lambda: reference(problem, module.get_init_inputs()), "cuda")
    if scale == "small":
        shrink(module, plain)
    inputs = make_inputs(module, "cuda", 1)
    return interleaved_medians([lambda: plain(*inputs)], "cuda")[0]


def tuned_times(arguments: argparse.Namespace) -> dict[str, float]:
    """By problem. In another process, because a plan that cuDNN once chose for some extents stays."""
    if arguments.device == "cpu":
        return {}
    command = [sys.executable, __file__, "--tuned", "--device", "cuda", "--scale", arguments.scale]
    command += [] if torch.backends.cudnn.allow_tf32 else ["--no-tf32"]
    done = subprocess.run([*command, "--problem", *arguments.problem], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def row(result: Result) -> str:
    shape = "x".join(map(str, result.shape))
    tuned = "-" if result.tuned_ms is None else f"{result.tuned_ms:.3f}"
    return (
        f"{result.problem:<11} {shape:<20} {result.torch_ms:>11.3f} {tuned:>11} {result.tconv3d_ms:>11.3f}"
        f" {result.speedup:>8.2f}x {result.error:>9.1e} {result.torch_error:>11.1e}"
        f"  {'ok' if result.passed else 'OVER BOUND'}"
    )


def problem_name(text: str) -> str:
    """`70`, `L1-70`, `L2-100` or `level1_70` name a problem."""
    for problem in PROBLEMS:
        level, number = problem.removeprefix("level").split("_")
        if text.lower() in (number, f"l{level}-{number}", problem):
            return problem
    raise argparse.ArgumentTypeError(f"no problem {text!r}; there are {', '.join(PROBLEMS)}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", nargs="+", type=problem_name, default=list(PROBLEMS), metavar="P")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--scale", choices=("small", "full"), help="default: small on the CPU, full on a GPU")
    parser.add_argument("--no-tf32", action="store_true", help="on a GPU, multiply fp32 in full (PyTorch's is tf32)")
    parser.add_argument("--tuned", action="store_true", help="only time PyTorch with cudnn.benchmark; prints JSON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    arguments = parser.parse_args()
    arguments.scale = arguments.scale or ("small" if arguments.device == "cpu" else "full")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error(f"PyTorch {torch.__version__} sees no CUDA GPU")
    if arguments.tuned and arguments.device == "cpu":
        parser.error("--tuned is for --device cuda: the CPU has nothing to tune")
    return arguments


def as_json(result: Result) -> dict[str, object]:
    computed = ("passed", "speedup", "best_ms", "speedup_over_best")
    return {**asdict(result), **{name: getattr(result, name) for name in computed}}


def write_json(path: Path, results: Sequence[Result], arguments: argparse.Namespace) -> None:
    facts = {
        "device": torch.cuda.get_device_name()
        if arguments.device == "cuda"
        else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "tf32": arguments.device == "cuda" and torch.backends.cudnn.allow_tf32,
        "scale": arguments.scale,
        "load_average": os.getloadavg()[0],
        "results": list(map(as_json, results)),
    }
    path.write_text(json.dumps(facts, indent=2) + "\n")


def warn_if_busy() -> None:
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        print(f"WARNING: load average {load:.1f} on {cores} cores: other programs are running, the times mean little")


def title(arguments: argparse.Namespace) -> str:
    if arguments.device == "cpu":
        return f"torch {torch.__version__}, cpu, {torch.get_num_threads()} threads, float32, forward"
    products = "tf32" if torch.backends.cudnn.allow_tf32 else "full"
    return f"torch {torch.__version__}, {torch.cuda.get_device_name()}, float32 with products in {products}, forward"


def main() -> int:
    arguments = parse_arguments()
    if arguments.no_tf32:
        torch.backends.cudnn.allow_tf32 = False
    if arguments.tuned:
        print(json.dumps({problem: time_tuned(problem, arguments.scale) for problem in arguments.problem}))
        return 0
    print(title(arguments))
    if arguments.scale == "small":
        print(f"scale small: batch at most {SMALL_BATCH}, extents cut until at most {SMALL_FLOPS / 1e9:.0f} GFLOP")
        print("             (--scale full runs KernelBench's own sizes)")
    warn_if_busy()
    tuned = tuned_times(arguments)
    print(HEADER)
    results = []
    for problem in arguments.problem:
        if sys.stderr.isatty():
            print(f"{problem} ...", end="\r", file=sys.stderr, flush=True)
        result = run_problem(problem, arguments.device, arguments.scale)
        results.append(replace(result, tuned_ms=tuned.get(problem)))
        print(row(results[-1]), flush=True)
    mean = statistics.geometric_mean(result.speedup for result in results)
    over = [result.problem for result in results if not result.passed]
    print(f"geometric mean {mean:.2f}x PyTorch; {len(results) - len(over)} of {len(results)} within the error bound")
    if tuned:
        over_best = statistics.geometric_mean(result.speedup_over_best for result in results)
        print(f"geometric mean {over_best:.2f}x the better of PyTorch as it comes and tuned (cudnn.benchmark)")
    if arguments.json:
        write_json(arguments.json, results, arguments)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
