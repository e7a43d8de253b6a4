"""Loads the compiled operators, once, and says what to do when they are not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

PATH = Path(__file__).with_name("libtconv3d_torch.so")

_BUILD = "Build it with `pip install .` in the source tree of tconv3d (or `make library` to use it in place)."

#: Why the operators cannot be used; None once they are loaded. Importing tconv3d never fails, so that
#: `python -m tconv3d doctor` can say what is wrong; the first call of an operator does.
failure: str | None = "tconv3d's operators are not loaded"


def load(path: Path = PATH) -> None:
    """Registers torch.ops.tconv3d.* from `path`; on failure, `failure` holds the reason."""
    global failure
    failure = _load(path)


def require() -> None:
    """Raises ImportError unless the operators are loaded."""
    if failure is not None:
        raise ImportError(failure)


def machine() -> dict[str, Any]:
    """What the library reports about itself and this machine."""
    require()
    facts: dict[str, Any] = json.loads(torch.ops.tconv3d.machine())
    return facts


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
    built_with = str(json.loads(torch.ops.tconv3d.machine())["torch_built_with"])
    if _minor(built_with) != _minor(torch.__version__):
        return (
            f"tconv3d's operators were built against PyTorch {built_with}, but PyTorch {torch.__version__} is "
            f"running; its C++ interface differs between minor versions. {_BUILD}"
        )
    return None


def _minor(version: str) -> list[str]:
    """`2.13.0+cpu` → ["2", "13"]: the part of the version that PyTorch's C++ interface depends on."""
    return version.split("+")[0].split(".")[:2]
