"""The problems that a command line lists, each in the modes and layouts that it asks for."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ..problem import LAYOUTS, NamedProblem, Problem, find_file, read_file
from .modes import MODES, in_mode, mode_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("problems", nargs="+", metavar="PROBLEM", help="problem strings, or files of them")
    parser.add_argument("--dtype", metavar="LIST", help=f"of {', '.join(MODES)}; default: the problems' own")
    parser.add_argument("--layout", metavar="LIST", help=f"of {', '.join(LAYOUTS)}; default: the problems' own")


def listed(options: argparse.Namespace) -> list[NamedProblem]:
    cases = [case for text in options.problems for named in _read(text) for case in _variants(named, options)]
    for case in cases:
        if case.problem.direction != "fwd":
            raise ValueError(
                f"'{case.problem}' is {case.problem.direction}: this command takes fwd. PyTorch's operators compute "
                "gradients on a GPU, unless TCONV3D_CUDA_IMPL names a kernel family for them"
            )
    return cases


def _read(text: str) -> list[NamedProblem]:
    """A problem string has blanks; a file, or the name of one that comes with tconv3d, has none."""
    if " " not in text:
        return read_file(find_file(text))
    name = " ".join(word for word in text.split() if word not in (*MODES, *LAYOUTS))
    return [NamedProblem(name, Problem.parse(text), "")]


def _variants(named: NamedProblem, options: argparse.Namespace) -> list[NamedProblem]:
    modes = options.dtype.split(",") if options.dtype else [mode_of(named.problem)]
    layouts = options.layout.split(",") if options.layout else [named.problem.layout]
    for word in (*modes, *layouts):
        if word not in MODES and word not in LAYOUTS:
            raise ValueError(f"unknown dtype or layout '{word}'; known: {', '.join((*MODES, *LAYOUTS))}")
    return [
        NamedProblem(f"{named.name} {mode} {layout}", replace(in_mode(named.problem, mode), layout=layout), named.why)
        for mode in modes
        for layout in layouts
    ]
