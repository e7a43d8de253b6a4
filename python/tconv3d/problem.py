"""One-line problem strings: `n8 ci48 co24 96x96x96 k3 s1 p0 op0 d1 g1 f32 ncdhw fwd`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import _library
from ._arguments import Size3, triple

Extents = tuple[int, int, int]

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
LAYOUTS = {"ncdhw": torch.contiguous_format, "ndhwc": torch.channels_last_3d}
DIRECTIONS = ("fwd", "bwd_data", "bwd_weight")
MATHS = ("full", "tf32")

_TOKEN = re.compile(r"(ci|co|op|n|k|s|p|d|g|)(-?\d+(?:x-?\d+x-?\d+)?)")
_FIELDS = {
    "n": "batch",
    "ci": "src_channels",
    "co": "dst_channels",
    "": "src",
    "k": "kernel",
    "s": "stride",
    "p": "padding",
    "op": "output_padding",
    "d": "dilation",
    "g": "groups",
}
#: What a problem string must have, in the words of its text.
_REQUIRED = {
    "src_channels": "ci (input channels)",
    "dst_channels": "co (output channels)",
    "src": "the input's extents",
    "kernel": "k (kernel)",
}
_EXAMPLE = "n8 ci48 co24 96x96x96 k3 s2 p1"
_SCALARS = ("batch", "src_channels", "dst_channels", "groups")


@dataclass(frozen=True)
class Problem:
    """A problem as plain values. Its arithmetic (output extents, flops, bytes) is the C++ library's: `facts`."""

    src_channels: int
    dst_channels: int
    src: Extents
    kernel: Extents
    batch: int = 1
    stride: Extents = (1, 1, 1)
    padding: Extents = (0, 0, 0)
    output_padding: Extents = (0, 0, 0)
    dilation: Extents = (1, 1, 1)
    groups: int = 1
    dtype: str = "f32"
    math: str = "full"
    layout: str = "ncdhw"
    direction: str = "fwd"

    @staticmethod
    def parse(text: str) -> Problem:
        """Reads a problem string.

        >>> str(Problem.parse("n2 ci8 co4 16x32x32 k3 s2 p1"))
        'n2 ci8 co4 16x32x32 k3 s2 p1 op0 d1 g1 f32 ncdhw fwd'
        """
        fields: dict[str, Any] = {}
        for token in text.split():
            name, value = _parse_token(token, text)
            if name in fields:
                raise ValueError(f"problem '{text}' gives {name} twice")
            fields[name] = value
        missing = [words for name, words in _REQUIRED.items() if name not in fields]
        if missing:
            raise ValueError(f"problem '{text}' lacks {', '.join(missing)}, as in '{_EXAMPLE}'")
        return Problem(**fields)

    @staticmethod
    def of(
        input: Tensor,
        weight: Tensor,
        stride: Size3 = 1,
        padding: Size3 = 0,
        output_padding: Size3 = 0,
        groups: int = 1,
        dilation: Size3 = 1,
        direction: str = "fwd",
    ) -> Problem:
        """The problem of a call of `conv_transpose3d`.

        >>> import torch
        >>> str(Problem.of(torch.empty(2, 8, 4, 4, 4), torch.empty(8, 4, 2, 2, 2), stride=2))
        'n2 ci8 co4 4x4x4 k2 s2 p0 op0 d1 g1 f32 ncdhw fwd'
        """
        batch, channels, *src = input.shape if input.dim() == 5 else (1, *input.shape)
        ndhwc = input.dim() == 5 and not input.is_contiguous() and _is_channels_last(input)
        return Problem(
            batch=batch,
            src_channels=channels,
            dst_channels=weight.shape[1] * groups,
            src=_extents(src),
            kernel=_extents(weight.shape[2:]),
            stride=_extents(triple("stride", stride)),
            padding=_extents(triple("padding", padding)),
            output_padding=_extents(triple("output_padding", output_padding)),
            dilation=_extents(triple("dilation", dilation)),
            groups=groups,
            dtype=next(name for name, dtype in DTYPES.items() if dtype == input.dtype),
            layout="ndhwc" if ndhwc else "ncdhw",
            direction=direction,
        )

    def __str__(self) -> str:
        numbers = (f"{prefix}{_joined(name, getattr(self, name))}" for prefix, name in _FIELDS.items())
        math = () if self.math == "full" else (self.math,)
        return " ".join((*numbers, self.dtype, *math, self.layout, self.direction))

    def facts(self) -> dict[str, Any]:
        """Output extents, flops and bytes, and the canonical string; RuntimeError when it is not valid."""
        _library.require()
        facts: dict[str, Any] = json.loads(torch.ops.tconv3d.problem_facts(str(self)))
        return facts


@dataclass(frozen=True)
class NamedProblem:
    """A line of a problem file: `name: problem   # why it is there`."""

    name: str
    problem: Problem
    why: str


def read_file(path: Path) -> list[NamedProblem]:
    """The problems of a file; blank lines and lines that begin with # are skipped."""
    return list(_lines(path))


def find_file(name: str) -> Path:
    """A problem file by path, or by the name of one that comes with tconv3d (`baselines`)."""
    if Path(name).is_file():
        return Path(name)
    package = Path(__file__).resolve().parent
    folders = (package / "problems", package.parents[1] / "problems")
    for folder in folders:
        for candidate in (folder / name, folder / f"{name}.txt"):
            if candidate.is_file():
                return candidate
    raise FileNotFoundError(f"no problem file '{name}': looked for that path and in {', '.join(map(str, folders))}")


def _lines(path: Path) -> Iterator[NamedProblem]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        body, _, why = line.partition("#")
        if not body.strip():
            continue
        name, colon, text = body.partition(":")
        if not colon:
            raise ValueError(f"{path}:{number}: expected 'name: problem   # why', got '{line}'")
        try:
            yield NamedProblem(name.strip(), Problem.parse(text.strip()), why.strip())
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None


def _parse_token(token: str, text: str) -> tuple[str, Any]:
    for name, words in (("dtype", DTYPES), ("math", MATHS), ("layout", LAYOUTS), ("direction", DIRECTIONS)):
        if token in words:
            return name, token
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise ValueError(f"problem '{text}' has '{token}', which is not understood; one is '{_EXAMPLE}'")
    name = _FIELDS[match[1]]
    numbers = [int(number) for number in match[2].split("x")]
    if name not in _SCALARS:
        return name, _extents(numbers * 3 if len(numbers) == 1 else numbers)
    if len(numbers) != 1:
        raise ValueError(f"problem '{text}' has '{token}', but {name} is one number")
    return name, numbers[0]


def _extents(values: Any) -> Extents:
    d, h, w = values
    return (int(d), int(h), int(w))


def _joined(name: str, value: int | Extents) -> str:
    """As the C++ library prints it: a spatial value whose dimensions agree is one number, but for src."""
    if isinstance(value, int):
        return str(value)
    return str(value[0]) if name != "src" and len(set(value)) == 1 else "x".join(map(str, value))


def _is_channels_last(tensor: Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last_3d)
