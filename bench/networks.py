#!/usr/bin/env python3
"""Times whole networks before and after `tconv3d.accelerate`: inference and training steps.

build/python bench/networks.py                       on the CPU
build/python bench/networks.py --device cuda         on a GPU, with cudnn.benchmark on both sides
build/python bench/networks.py --json bench/results/networks-cpu.json

Both models have the same parameters and take turns in one process; a time is the median. The share is what PyTorch's
transposed convolutions take of its own inference: a network cannot gain more than that.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import tconv3d
from tconv3d.cli.machine import cpu_model
from tconv3d.cli.results import timestamp
from tconv3d.cli.table import table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from models import Generator, UNet
from share import milliseconds, share_of_transposed

#: Agreement of both outputs, relative to the largest: of fp32 on the CPU, of tf32 and halves on a GPU.
TOLERANCE = {"cpu": 1e-4, "cuda": 3e-2}


@dataclass(frozen=True)
class Network:
    name: str
    make: Callable[[], nn.Module]
    #: The size of its input, by device.
    sizes: dict[str, tuple[int, ...]]


NETWORKS = (
    Network("3D U-Net", UNet, {"cpu": (1, 1, 32, 32, 32), "cuda": (2, 1, 128, 128, 128)}),
    Network("3D-GAN generator", Generator, {"cpu": (2, 200), "cuda": (16, 200)}),
)


@dataclass(frozen=True)
class Row:
    network: str
    size: tuple[int, ...]
    dtype: str
    step: str
    torch_ms: float
    tconv3d_ms: float
    #: Of transposed convolutions in PyTorch's inference.
    share: float

    @property
    def speed_up(self) -> float:
        return self.torch_ms / self.tconv3d_ms


def alternate(calls: list[Callable[[], object]], device: str, seconds: float) -> list[float]:
    """The median time of each, in turns, after a warm-up."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls * 2:
        call()
    begin = time.perf_counter()
    while len(times[0]) < 3 or time.perf_counter() - begin < seconds:
        for own, call in zip(times, calls):
            own.append(milliseconds(call, device))
    return [statistics.median(own) for own in times]


def training_step(model: nn.Module, x: Tensor) -> Callable[[], None]:
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimiser.step()

    return step


def inference(model: nn.Module, x: Tensor) -> Callable[[], None]:
    def step() -> None:
        with torch.no_grad():
            model(x)

    return step


def measure(network: Network, device: str, dtype: str, seconds: float) -> list[Row]:
    torch.manual_seed(0)
    size = network.sizes[device]
    x = torch.randn(size, device=device)
    plain = network.make().to(device)
    ours = copy.deepcopy(plain)
    tconv3d.accelerate(ours)
    half = {"bf16": torch.bfloat16, "f16": torch.float16}.get(dtype)
    context: AbstractContextManager[object] = torch.autocast(device, half) if half is not None else nullcontext()
    with context:
        check(network.name, plain, ours, x, device)
        share = share_of_transposed(plain, x, device)
        steps = {"inference": inference, "training step": training_step}
        return [
            Row(network.name, size, dtype, name, *alternate([step(plain, x), step(ours, x)], device, seconds), share)
            for name, step in steps.items()
        ]


def check(name: str, plain: nn.Module, ours: nn.Module, x: Tensor, device: str) -> None:
    with torch.no_grad():
        want, got = plain(x).float(), ours(x).float()
    error = float((got - want).abs().max() / want.abs().max())
    if not error <= TOLERANCE[device]:
        raise SystemExit(f"{name}: the outputs differ by {error:.2e} of the largest")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--dtype", default=None, help="f32, bf16, f16, or several with commas (default: f32; cuda: f32,bf16)"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="how long the models take turns")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    dtypes = (options.dtype or ("f32" if options.device == "cpu" else "f32,bf16")).split(",")
    rows: list[Row] = []
    for network in NETWORKS:
        for dtype in dtypes:
            print(f"{network.name}, {dtype} ...", file=sys.stderr, flush=True)
            rows += measure(network, options.device, dtype, options.seconds)
    header = ["network", "input", "dtype", "step", "PyTorch ms", "tconv3d ms", "speed-up", "share of ConvTranspose3d"]
    cells = [[r.network, "x".join(map(str, r.size)), r.dtype, r.step, f"{r.torch_ms:.2f}", f"{r.tconv3d_ms:.2f}",
              f"{r.speed_up:.2f}x", f"{r.share:.0%}"] for r in rows]  # fmt: skip
    print(table(header, cells))
    if options.json is not None:
        machine = cpu_model() if options.device == "cpu" else torch.cuda.get_device_name()
        facts = {"machine": machine, "threads": torch.get_num_threads(), "torch": torch.__version__,
                 "tconv3d": tconv3d.__version__, "date": timestamp()}  # fmt: skip
        options.json.write_text(json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
