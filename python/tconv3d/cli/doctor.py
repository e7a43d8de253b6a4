"""what this machine has, which backends work, and why others do not"""

from __future__ import annotations

import argparse
import platform

import torch

from .. import __version__, _library
from .machine import cores, cpu_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: it only looks."""


def run(options: argparse.Namespace) -> int:
    print(f"tconv3d    {__version__}")
    print(f"Python     {platform.python_version()} ({platform.platform()})")
    print(f"PyTorch    {torch.__version__}")
    print(f"CPU        {cpu_model()}, {cores()} cores, {torch.get_num_threads()} threads")
    print(f"library    {_library.PATH}")
    if _library.failure is not None:
        print(f"           not usable: {_library.failure}")
        return 1
    machine = _library.machine()
    print(f"           version {machine['version']}, built against PyTorch {machine['torch_built_with']}: usable")
    _print_isas(machine["isas"], machine["isa"])
    print(f"order      {', '.join(machine['implementations'])} (the first that accepts a problem runs it)")
    print(f"CUDA       {_cuda()}")
    return 0


def _print_isas(isas: list[dict[str, object]], chosen: str) -> None:
    label = "ISA"
    for isa in isas:
        state = "chosen" if isa["name"] == chosen else "available" if isa["available"] else "not available"
        why = f": {isa['why']}" if isa["why"] else ""
        print(f"{label:<10} {isa['name']:<9} {state}{why}")
        label = ""


def _cuda() -> str:
    backend = "tconv3d has no CUDA backend; tensors on a GPU go to PyTorch's operator"
    if not torch.cuda.is_available():
        return f"{backend}. PyTorch sees no GPU here."
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return f"{backend}. PyTorch sees {names}."
