"""what would run for a problem, and why"""

from __future__ import annotations

import argparse

import torch

from .. import _library
from ..problem import Problem, find_file, read_file
from .machine import measure_rates, roofline


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("problem", help='such as "n8 ci48 co24 96x96x96 k3 s1 p0", or a name of --problems')
    parser.add_argument("--epilogue", default="", metavar="TEXT", help='such as "clamp(min=-1) div(2)"')
    parser.add_argument("--problems", default="baselines", metavar="FILE", help="where names are looked up")
    parser.add_argument("--no-measure", action="store_true", help="leave out the roofline, which takes a second")


def run(options: argparse.Namespace) -> int:
    _library.require()
    problem = _find(options.problem, options.problems)
    print(torch.ops.tconv3d.explain(str(problem), options.epilogue).rstrip())
    if not options.no_measure:
        print(roofline(problem, measure_rates(problem.dtype)))
    return 0


def _find(text: str, problems: str) -> Problem:
    if text.isidentifier():
        for named in read_file(find_file(problems)):
            if named.name == text:
                return named.problem
    return Problem.parse(text)
