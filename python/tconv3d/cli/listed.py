"""The problems that a command line lists, each in the modes, layouts and directions that it asks for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace

from ..problem import DIRECTIONS, LAYOUTS, NamedProblem, Problem, find_file, read_file
from .modes import MODES, in_mode, mode_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("problems", nargs="+", metavar="PROBLEM", help="problem strings, or files of them")
    parser.add_argument("--dtype", metavar="LIST", help=f"of {', '.join(MODES)}; default: the problems' own")
    parser.add_argument("--layout", metavar="LIST", help=f"of {', '.join(LAYOUTS)}; default: the problems' own")
    parser.add_argument("--direction", metavar="LIST", help=f"of {', '.join(DIRECTIONS)}; default: the problems' own")


def listed(options: argparse.Namespace) -> list[NamedProblem]:
    return [case for text in options.problems for named in _read(text) for case in _variants(named, options)]


def words(text: str | None, known: Iterable[str], default: str) -> list[str]:
    """The words of a list, all of which are known, or the default."""
    found = text.split(",") if text else [default]
    for word in found:
        if word not in known:
            raise ValueError(f"unknown '{word}'; known: {', '.join(known)}")
    return found


def _read(text: str) -> list[NamedProblem]:
    """A problem string has blanks; a file, or the name of one that comes with tconv3d, has none."""
    if " " not in text:
        return read_file(find_file(text))
    name = " ".join(word for word in text.split() if word not in (*MODES, *LAYOUTS, *DIRECTIONS))
    return [NamedProblem(name, Problem.parse(text), "")]


def _variants(named: NamedProblem, options: argparse.Namespace) -> list[NamedProblem]:
    problem = named.problem
    return [
        NamedProblem(
            f"{named.name} {mode} {layout}" + ("" if direction == "fwd" else f" {direction}"),
            replace(in_mode(problem, mode), layout=layout, direction=direction),
            named.why,
        )
        for mode in words(options.dtype, MODES, mode_of(problem))
        for layout in words(options.layout, LAYOUTS, problem.layout)
        for direction in words(options.direction, DIRECTIONS, problem.direction)
    ]
