"""The problems that a command line lists, each in the modes, layouts and directions that it asks for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from ..problem import DIRECTIONS, LAYOUTS, NamedProblem, Problem, find_file, read_file
from .modes import MODES, in_mode, mode_of

#: The file whose problems may be asked for by name.
_NAMES = "baselines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "problems", nargs="+", metavar="PROBLEM", help="problem strings, files of them, or names of baselines"
    )
    add_variants(parser)


def add_variants(parser: argparse.ArgumentParser) -> None:
    for option, known in (("--dtype", MODES), ("--layout", LAYOUTS), ("--direction", DIRECTIONS)):
        parser.add_argument(option, metavar="LIST", help=f"of {', '.join(known)}; default: the problem's own")


def listed(options: argparse.Namespace) -> list[NamedProblem]:
    return [case for text in options.problems for named in _read(text) for case in variants(named, options)]


def variants(named: NamedProblem, options: argparse.Namespace) -> list[NamedProblem]:
    problem = named.problem
    return [
        NamedProblem(
            f"{named.name} {mode} {layout}" + ("" if direction == "fwd" else f" {direction}"),
            replace(in_mode(problem, mode), layout=layout, direction=direction),
            named.why,
        )
        for mode in _words(options.dtype, MODES, mode_of(problem))
        for layout in _words(options.layout, LAYOUTS, problem.layout)
        for direction in _words(options.direction, DIRECTIONS, problem.direction)
    ]


def named(text: str, file: Path) -> NamedProblem | str:
    """The problem of the file that has this name, or which names there are."""
    known = {each.name: each for each in read_file(file)}
    if text in known:
        return known[text]
    near = get_close_matches(text, known, n=5, cutoff=0.7)
    return f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(known)}"


def _read(text: str) -> list[NamedProblem]:
    """A problem string has blanks; a name of a problem, a file, or the name of one that comes with tconv3d has none."""
    if " " not in text.strip():
        found = named(text, find_file(_NAMES))
        if isinstance(found, NamedProblem):
            return [found]
        try:
            return read_file(find_file(text))
        except FileNotFoundError as error:
            raise ValueError(f"{error}; and '{_NAMES}' has no problem of that name: {found}") from None
    name = " ".join(word for word in text.split() if word not in (*MODES, *LAYOUTS, *DIRECTIONS))
    return [NamedProblem(name, Problem.parse(text), "")]


def _words(text: str | None, known: Iterable[str], default: str) -> list[str]:
    """The words of a list, all of which are known, or the default."""
    found = text.split(",") if text else [default]
    for word in found:
        if word not in known:
            raise ValueError(f"unknown '{word}'; known: {', '.join(known)}")
    return found
