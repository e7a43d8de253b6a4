"""what this machine has, which backends work, and why others do not"""

from __future__ import annotations

import argparse
import platform
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
    machine = _library.cuda_machine()
    if not seen:
        print(f"CUDA       PyTorch {torch.__version__} sees no GPU here")
        print(f"  NVRTC    {_status(machine['nvrtc'])}")
        return
    print(f"CUDA       PyTorch (CUDA {torch.version.cuda}) sees {', '.join(seen)}")
    print(f"  driver   {_status(machine['driver'])}")
    print(f"  NVRTC    {_status(machine['nvrtc'])}{_other_major(machine)}")
    print(f"  stream   {_status(machine['torch'])}")
    print(f"  kernels  {_cache(machine['cache'])}")
    for index, device in enumerate(machine["devices"]):
        print(f"  cuda:{index}   {device['name']}, sm_{device['sm']}, {device['multiprocessors']} multiprocessors")
        if device["failure"]:
            print(f"           left to PyTorch: {device['failure']}")
    print(f"  among    {', '.join(machine['implementations'])} (the cheapest that accepts a problem runs it)")
    failure = _library.find_cuda_failure(machine)
    print(f"           {'usable' if failure is None else 'not usable: PyTorch computes on the GPU instead'}")


def _status(part: dict[str, Any]) -> str:
    if not part["available"]:
        return "not available: " + str(part["reason"]).replace("\n", "\n           ")
    return ", ".join(str(part[key]) for key in ("version", "file") if part.get(key)) or "available"


def _other_major(machine: dict[str, Any]) -> str:
    """What NVRTC and a driver of different major versions mean; empty where they are of the same."""
    driver, nvrtc = (str(machine[part]["version"]) for part in ("driver", "nvrtc"))
    if not driver or not nvrtc or driver.split(".")[0] == nvrtc.split(".")[0]:
        return ""
    older = int(nvrtc.split(".")[0]) < int(driver.split(".")[0])
    return f" (the driver is for CUDA {driver}, which {'loads' if older else 'cannot load'} what this NVRTC compiles)"


def _cache(cache: dict[str, Any]) -> str:
    if not cache["folder"]:
        return f"compiled in each process: {cache['reason']}"
    size, most = (cache[key] / 2**20 for key in ("bytes", "most_bytes"))
    text = f"{cache['files']} compiled and tuned ones in {cache['folder']}, {size:.1f} of at most {most:.0f} MiB"
    if cache["failure"]:
        text += f"\n           new ones are compiled in each process: {cache['failure']}"
    if cache["warning"]:
        text += f"\n           {cache['warning']}"
    return text
