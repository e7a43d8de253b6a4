"""Random calls of conv_transpose3d. A case follows from a seed and a number alone, so that each can be run again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch

from oracle import DTYPES
from problem_file import Problem, Triple

#: Of one case, so that a million of them take hours and not days.
MULTIPLICATIONS = 200_000

#: Where a tensor lies in memory.
VIEWS = ("contiguous", "channels_last", "permuted", "sliced", "offset", "expanded")

#: Steps that are exact on whole numbers; of each value an integer or a half remains.
STEPS = (
    "relu",
    "leaky_relu(0.5)",
    "add(3)",
    "mul(-2)",
    "div(2)",
    "clamp(min=-4)",
    "clamp(min=-4,max=5)",
    "channel_add",
    "channel_mul",
    "residual_add",
    "residual_mul",
)

#: How a valid call is made one that may be wrong: the argument, and what becomes of it. Numbers of more than 32 bits
#: are left to test_errors.py and to extreme problems, because PyTorch cuts some of them off.
BREAKS = (
    ("stride", (0, -1, (1, 2), "2", 1.5, None)),
    ("padding", (-1, 7, (1, 2), "same", 0.5)),
    ("output_padding", (-1, 1, 2, 5, (0,), None)),
    ("dilation", (0, -3, (1, 1, 1, 1), 2.0)),
    ("groups", (0, -1, 2, 3, 5, 64, 2**62, "1", 1.0)),
    ("input_channels", (0, 1, 5)),
    ("input_rank", (0, 2, 3, 6)),
    ("input_extent", (0,)),
    ("weight_channels", (0, 1, 5)),
    ("weight_rank", (0, 4, 6)),
    ("weight_extent", (0,)),
    ("bias_length", (0, 1, 5)),
    ("bias_rank", (0, 2)),
    ("weight_dtype", DTYPES),
    ("bias_dtype", DTYPES),
)


@dataclass(frozen=True)
class Case:
    """One call."""

    problem: Problem
    dtype: torch.dtype
    #: An instruction set, or the reference.
    forced: str
    threads: int
    has_bias: bool
    unbatched: bool
    views: dict[str, str]
    steps: tuple[str, ...]
    #: Of input, weight, bias and the epilogue's tensors, those that get a gradient.
    wants: frozenset[str]
    #: An argument and its bad value; None for a valid call.
    broken: tuple[str, Any] | None = None
    #: Too far apart for PyTorch's operator: the definition is the oracle.
    extreme: bool = False
    #: The seed of all tensors.
    numbers: int = 0


def draw(seed: int, number: int, forced: tuple[str, ...]) -> Case:
    """Case `number` of the run `seed`, on one of the implementations `forced`."""
    random = Random(f"{seed}/{number}")
    kind = random.choices(("valid", "broken", "extreme"), (80, 12, 8))[0]
    problem = _extreme_problem(random) if kind == "extreme" else _problem(random)
    case = Case(
        problem,
        dtype=random.choice(DTYPES),
        forced=random.choice(forced),
        threads=random.randint(1, 3),
        has_bias=random.random() < 0.6,
        unbatched=problem.n == 1 and random.random() < 0.3,
        views={name: random.choice(VIEWS) for name in ("input", "weight", "bias", "grad")},
        steps=tuple(random.choices(STEPS, k=random.choice((0, 0, 0, 1, 2, 4)))),
        wants=frozenset(name for name in ("input", "weight", "bias", "operands") if random.random() < 0.6),
        extreme=kind == "extreme",
        numbers=random.getrandbits(32),
    )
    if kind != "broken":
        return case
    argument, values = random.choice(BREAKS)
    # Without images PyTorch checks less; and other groups make other output channels, which a chain would not fit.
    problem = replace(problem, n=max(problem.n, 1))
    return replace(case, problem=problem, broken=(argument, random.choice(values)), unbatched=False, steps=())


def _triple(random: Random, low: int, high: int) -> Triple:
    if random.random() < 0.5:
        value = random.randint(low, high)
        return value, value, value
    return random.randint(low, high), random.randint(low, high), random.randint(low, high)


def _channels(random: Random) -> tuple[int, int, int]:
    """Groups, then channels in and out."""
    groups = random.choice((1, 1, 1, 2, 3, 7))
    ci, co = (groups * random.choice((1, 1, 2, 3, 4, random.randint(5, 40))) for _ in range(2))
    return groups, ci, co


def _problem(random: Random) -> Problem:
    while True:
        g, ci, co = _channels(random)
        long_rows = random.random() < 0.3
        src = (
            (random.randint(1, 2), random.randint(1, 3), random.randint(1, 80)) if long_rows else _triple(random, 1, 6)
        )
        k, s, d, p = _triple(random, 1, 5), _triple(random, 1, 4), _triple(random, 1, 4), _triple(random, 0, 6)
        op = tuple(random.randint(0, max(pair) - 1) for pair in zip(s, d))
        problem = Problem("fuzz", "", "", ci, co, src, k, random.choice((0, 1, 1, 2, 3)), s, p, op, d, g)  # type: ignore[arg-type]
        if min(problem.dst) > 0 and _multiplications(problem) <= MULTIPLICATIONS:
            return problem


def _multiplications(problem: Problem) -> int:
    product = problem.n * problem.ci * problem.co // problem.g
    for extent, taps in zip(problem.src, problem.k):
        product *= extent * taps
    return product


def _extreme_problem(random: Random) -> Problem:
    """Each dimension usual or far apart, with few voxels on both sides."""
    g, ci, co = random.choice(((1, 1, 1), (1, 2, 3), (2, 4, 2)))
    dimensions = [random.choice((_usual, _far_taps, _far_voxels))(random) for _ in range(3)]
    src, k, s, p, op, d = zip(*dimensions)
    return Problem("fuzz", "", "", ci, co, src, k, random.choice((1, 2)), s, p, op, d, g)


def _usual(random: Random) -> tuple[int, ...]:
    return random.randint(1, 3), random.randint(1, 2), random.randint(1, 2), 0, 0, 1


def _far_taps(random: Random) -> tuple[int, ...]:
    """Taps at a great distance, of which padding leaves those that reach a few outputs."""
    i, k, s = random.randint(1, 3), random.randint(1, 3), random.randint(1, 3)
    d = 2 ** random.randint(4, 60) + random.randint(0, 1)
    return i, k, s, *_cut(random, (i - 1) * s + d * (k - 1) + 1), d


def _far_voxels(random: Random) -> tuple[int, ...]:
    """Voxels at a great distance."""
    i, k, d = random.randint(1, 3), random.randint(1, 3), random.randint(1, 3)
    s = 2 ** random.randint(4, 60) + random.randint(0, 1)
    padding, output_padding = _cut(random, (i - 1) * s + d * (k - 1) + 1)
    return i, k, s, padding, output_padding, d


def _cut(random: Random, extent: int) -> tuple[int, int]:
    """The padding that leaves a few outputs of so many, and no output padding."""
    left = min(extent, random.randint(1, 8))
    return (extent - left) // 2, 0
