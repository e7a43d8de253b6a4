"""The public names: what they are, that each has a docstring, and what importing them says."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

import tconv3d


def public_objects() -> Iterator[tuple[str, object]]:
    for name in tconv3d.__all__:
        value = getattr(tconv3d, name)
        yield name, value
        if inspect.isclass(value):
            members = {member: found for kind in value.__mro__[::-1] if is_ours(kind) for member, found in vars(kind).items()}
            for member, found in members.items():
                if not member.startswith("_") and (inspect.isroutine(found) or isinstance(found, property)):
                    yield f"{name}.{member}", found
        if inspect.ismodule(value):
            for member in value.__all__:
                yield f"{name}.{member}", getattr(value, member)


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "tconv3d"


def test_every_public_object_has_a_docstring() -> None:
    objects = dict(public_objects())
    assert {"Epilogue.clamp", "ConvTranspose3d.forward", "ConvTranspose3d.epilogue", "fallback.reason"} <= set(objects)
    assert len(objects) >= 40
    assert [name for name, value in objects.items() if not inspect.getdoc(value)] == []


def imported(before: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """`import tconv3d` in a process of its own, after the statement `before`."""
    package = Path(tconv3d.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *filter(None, sys.path)])}
    code = f"import torch; {before}; import tconv3d; print('imported', tconv3d.fallback.torch_conv_transpose3d)"
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, env=environment)


def test_another_pytorch_is_told_at_import() -> None:
    done = imported("torch.__version__ = '1.99.0+cpu'")
    assert done.stdout.startswith("imported"), done.stderr
    assert f"were built against PyTorch {torch.__version__.partition('+')[0]}" in done.stderr
    assert "PyTorch 1.99.0+cpu is running" in done.stderr
    assert "python -m tconv3d doctor" in done.stderr


def test_the_right_pytorch_says_nothing() -> None:
    done = imported("pass", "-W", "error")
    assert done.stdout.startswith("imported"), done.stderr
