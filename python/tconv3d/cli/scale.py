"""Problems made for a GPU, cut to what a CPU does in milliseconds."""

from __future__ import annotations

from dataclasses import replace

from ..problem import Extents, Problem

_BATCH_LIMIT = 2
_FLOP_LIMIT = 3e9


def scale_for_cpu(problem: Problem) -> Problem:
    """At most batch 2; then a quarter off every spatial extent, again and again, until at most 3 GFLOP are left."""
    scaled = replace(problem, batch=min(problem.batch, _BATCH_LIMIT))
    while scaled.facts()["flops"] > _FLOP_LIMIT:
        smaller = replace(scaled, src=_three_quarters(scaled.src))
        if smaller == scaled:
            break
        scaled = smaller
    return scaled


def _three_quarters(extents: Extents) -> Extents:
    """Rounded up."""
    d, h, w = (-(-3 * extent // 4) for extent in extents)
    return (d, h, w)
