"""Loads the compiled operators, once, and says what to do when they are not there."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch


def find(folders: Iterable[str]) -> Path:
    """The library in one of the package's `folders`, or where it should be beside this file. An editable installation
    has two: its modules stay in the source tree, and what is built is installed."""
    name = "libtconv3d_torch.so"
    candidates = [Path(folder) / name for folder in folders]
    return next((path for path in candidates if path.exists()), Path(__file__).with_name(name))


PATH = find(sys.modules[__package__].__path__)

_BUILD = "Build it with `pip install .` in the source tree of tconv3d (or `make build` to use it in place)."

#: Why the operators cannot be used; None once they are loaded. Importing tconv3d never fails, so that
#: `python -m tconv3d doctor` can say what is wrong; the first call of an operator does.
failure: str | None = "tconv3d's operators are not loaded"


#: Whether `cuda_failure` was asked, and what it found.
_cuda_asked = False
_cuda_failure: str | None = None


def load(path: Path = PATH) -> None:
    """Registers torch.ops.tconv3d.* from `path`; on failure, `failure` holds the reason."""
    global failure
    failure = _load(path)
    if failure is None:
        torch.ops.tconv3d.set_nvrtc_folders([str(folder) for folder in _nvrtc_folders()])


def require() -> None:
    """Raises ImportError unless the operators are loaded."""
    if failure is not None:
        raise ImportError(failure)


def machine() -> dict[str, Any]:
    """What the library reports about itself and this machine."""
    require()
    facts: dict[str, Any] = json.loads(torch.ops.tconv3d.machine())
    return facts


def cuda_machine() -> dict[str, Any]:
    """What the library finds of CUDA on this machine. Initialises the driver."""
    require()
    facts: dict[str, Any] = json.loads(torch.ops.tconv3d.cuda_machine())
    return facts


def cuda_failure() -> str | None:
    """Why the CUDA backend cannot be used; None when it can. Found out once, at the first tensor on a GPU, and then
    also said in a warning."""
    global _cuda_asked, _cuda_failure
    if not _cuda_asked:
        _cuda_failure = failure if failure is not None else find_cuda_failure(cuda_machine())
        _cuda_asked = True
        if _cuda_failure is not None:
            warnings.warn(
                f"tconv3d's CUDA backend cannot be used, so PyTorch's operator computes: {_cuda_failure}", stacklevel=2
            )
    return _cuda_failure


# torch.compile calls it while it traces and takes the answer for a constant.
cuda_failure._dynamo_marked_constant = True  # type: ignore[attr-defined]


def find_cuda_failure(machine: dict[str, Any]) -> str | None:
    """What of `cuda_machine` keeps the CUDA backend from working."""
    for part in ("torch", "driver", "nvrtc"):
        if not machine[part]["available"]:
            return str(machine[part]["reason"])
    failures = [str(device["failure"]) for device in machine["devices"]]
    return failures[0] if failures and all(failures) else None


def _nvrtc_folders() -> list[Path]:
    """Where packages keep NVRTC, that of PyTorch's own CUDA first: another package may have brought a later one, which
    compiles what the driver is too old for. The packages of CUDA 13, those of CUDA 12 and 11, and PyTorch's own folder,
    which older versions of it filled."""
    packages = Path(torch.__file__).resolve().parents[1]
    later, earlier = [packages / "nvidia/cu13/lib"], [packages / "nvidia/cuda_nvrtc/lib", packages / "torch/lib"]
    is_earlier = torch.version.cuda is not None and int(torch.version.cuda.split(".")[0]) < 13
    folders = [*earlier, *later] if is_earlier else [*later, *earlier]
    return [folder for folder in folders if _is_utf8(str(folder))]


def _is_utf8(text: str) -> bool:
    """Whether PyTorch's operators can be given the text: file names may hold any bytes, their strings may not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _load(path: Path) -> str | None:
    if not path.exists():
        return f"tconv3d's operators are not built: {path} does not exist. {_BUILD}"
    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        return (
            f"tconv3d's operators cannot be loaded into PyTorch {torch.__version__}; "
            f"most often they were built against another PyTorch. {_BUILD}\n{error}"
        )
    try:
        built_with = str(json.loads(torch.ops.tconv3d.machine())["torch_built_with"])
    except RuntimeError as error:  # TCONV3D_ISA asks for what there is not
        return f"tconv3d's operators cannot be used: {error}"
    if _minor(built_with) != _minor(torch.__version__):
        return (
            f"tconv3d's operators were built against PyTorch {built_with}, but PyTorch {torch.__version__} is "
            f"running; its C++ interface differs between minor versions. {_BUILD}"
        )
    return None


def _minor(version: str) -> list[str]:
    """`2.13.0+cpu` → ["2", "13"]: the part of the version that PyTorch's C++ interface depends on."""
    return version.split("+")[0].split(".")[:2]
