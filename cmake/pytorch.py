"""Finds the PyTorch that the operators are built for: cmake/PyTorch.cmake and cmake/metadata.py ask here.

As a program it prints, separated by semicolons, how its Python is called, PyTorch's folder, its version and whether it
has the C++11 ABI.

Candidates, in order: the Python that TCONV3D_PYTHON names, alone if it is set; the Python that runs this; the active
environment's. They are asked without PYTHONPATH too, by which alone pip hides the user's packages from isolated builds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

OLDEST = (2, 1)

_QUERY = """
import os, torch
root = os.path.dirname(os.path.abspath(torch.__file__))
print(root, torch.__version__, int(torch.compiled_with_cxx11_abi()), sep=";", end="")
"""


class NotFoundError(Exception):
    """No candidate has a PyTorch that will do; the text says what to do."""


@dataclass(frozen=True)
class PyTorch:
    python: str
    root: str
    version: str
    cxx11_abi: str

    @property
    def minor(self) -> str:
        """`2.13` of `2.13.0+cpu`: what its C++ interface depends on."""
        return ".".join(self.version.split("+")[0].split(".")[:2])


def find() -> PyTorch:
    failures = ""
    for command in _candidates():
        asked = subprocess.run([*command, "-c", _QUERY], capture_output=True, text=True)
        if asked.returncode == 0:
            found = PyTorch(" ".join(command), *asked.stdout.split(";"))
            _require_known(found)
            return found
        failures += f"\n  {' '.join(command)}: {asked.stderr.strip().rpartition(chr(10))[2]}"
    raise NotFoundError(
        f"No PyTorch found. Tried:{failures}\nInstall PyTorch first. If it is installed, name its Python with "
        "-DTCONV3D_PYTHON=... or the environment variable TCONV3D_PYTHON, or install with --no-build-isolation."
    )


def _candidates() -> list[list[str]]:
    if named := os.environ.get("TCONV3D_PYTHON"):
        return [[named], [named, "-E"]]
    environments = filter(None, (os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")))
    commands = [[sys.executable], [sys.executable, "-E"], *([f"{each}/bin/python", "-E"] for each in environments)]
    return [command for place, command in enumerate(commands) if command not in commands[:place]]


def _require_known(found: PyTorch) -> None:
    if tuple(map(int, found.minor.split("."))) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise NotFoundError(f"PyTorch {found.version} found in {found.root}; tconv3d needs {oldest} or later")


if __name__ == "__main__":
    try:
        pytorch = find()
    except (NotFoundError, OSError) as error:
        sys.exit(str(error))
    print(pytorch.python, pytorch.root, pytorch.version, pytorch.cxx11_abi, sep=";", end="")
