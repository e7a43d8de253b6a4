"""The problem files: one problem a line, `name: n8 ci48 co24 96x96x96 k3 s1 p0   # why it is here`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"

Triple = tuple[int, int, int]

LINE = re.compile(r"(?P<name>\w+): (?P<text>[^#]+?) +# (?P<why>.+)")
TOKEN = re.compile(r"(?P<key>n|ci|co|k|s|p|op|d|g|)(?P<value>\d+(x\d+x\d+)?)")


@dataclass(frozen=True)
class Problem:
    """Parsed here and not by the library, so that the tests have an opinion of their own."""

    name: str
    text: str
    why: str
    ci: int
    co: int
    src: Triple
    k: Triple
    n: int = 1
    s: Triple = (1, 1, 1)
    p: Triple = (0, 0, 0)
    op: Triple = (0, 0, 0)
    d: Triple = (1, 1, 1)
    g: int = 1

    @property
    def dst(self) -> Triple:
        extents = zip(self.src, self.k, self.s, self.p, self.op, self.d)
        d, h, w = ((i - 1) * s - 2 * p + d * (k - 1) + op + 1 for i, k, s, p, op, d in extents)
        return d, h, w

    @property
    def src_shape(self) -> tuple[int, ...]:
        return (self.n, self.ci, *self.src)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return (self.ci, self.co // self.g, *self.k)

    @property
    def dst_shape(self) -> tuple[int, ...]:
        return (self.n, self.co, *self.dst)

    @property
    def settings(self) -> tuple[Triple, Triple, Triple, int, Triple]:
        """What follows weight and bias in `F.conv_transpose3d` and in the ops."""
        return self.s, self.p, self.op, self.g, self.d


def parse(line: str) -> Problem:
    match = LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not `name: problem   # why`: {line!r}")
    fields: dict[str, Any] = {}
    for token in match["text"].split():
        part = TOKEN.fullmatch(token)
        if part is None:
            raise ValueError(f"unknown word {token!r} in {line!r}")
        values = tuple(int(value) for value in part["value"].split("x"))
        scalar = part["key"] in ("n", "ci", "co", "g")
        fields[part["key"] or "src"] = values[0] if scalar else values * (3 // len(values))
    return Problem(match["name"], match["text"], match["why"], **fields)


def read(file: str) -> list[Problem]:
    lines = (line.strip() for line in (PROBLEMS / file).read_text().splitlines())
    return [parse(line) for line in lines if line and not line.startswith("#")]
