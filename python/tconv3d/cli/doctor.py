"""what this machine has, which backends work, and why others do not"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from typing import Any

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
    _print_cuda()
    return 0


def _print_isas(isas: list[dict[str, object]], chosen: str) -> None:
    label = "ISA"
    for isa in isas:
        state = "chosen" if isa["name"] == chosen else "available" if isa["available"] else "not available"
        why = f": {isa['why']}" if isa["why"] else ""
        print(f"{label:<10} {isa['name']:<9} {state}{why}")
        label = ""


def _print_cuda() -> None:
    seen = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if not seen:
        print(f"CUDA       PyTorch {torch.__version__} sees no GPU here")
        return
    machine = _library.cuda_machine()
    print(f"CUDA       PyTorch (CUDA {torch.version.cuda}) sees {', '.join(seen)}")
    print(f"  driver   {_status(machine['driver'])}")
    print(f"  NVRTC    {_status(machine['nvrtc'])}")
    print(f"  stream   {_status(machine['torch'])}")
    print(f"  kernels  {_cache(machine['cache'])}")
    for index, device in enumerate(machine["devices"]):
        print(f"  cuda:{index}   {device['name']}, sm_{device['sm']}, {device['multiprocessors']} multiprocessors")
    print(f"  among    {', '.join(machine['implementations'])} (the cheapest that accepts a problem runs it)")
    failure = _library.find_cuda_failure(machine)
    print(f"           {'usable' if failure is None else 'not usable: PyTorch computes on the GPU instead'}")


def _status(part: dict[str, Any]) -> str:
    if not part["available"]:
        return "not available: " + str(part["reason"]).replace("\n", "\n           ")
    return ", ".join(str(part[key]) for key in ("version", "file") if part.get(key)) or "available"


def _cache(cache: dict[str, Any]) -> str:
    if not cache["folder"]:
        return f"compiled in each process: {cache['reason']}"
    folder = Path(cache["folder"])
    files = [file for file in folder.glob("*") if file.is_file()] if folder.is_dir() else []
    size = sum(file.stat().st_size for file in files) / 2**20
    return f"{len(files)} compiled ones in {folder}, {size:.1f} MiB"
