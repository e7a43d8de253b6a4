"""Types of options: what cannot be used is told before anything is measured."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

#: What both matplotlib writes and documents show.
_PICTURES = (".png", ".svg", ".pdf")


def seconds(text: str) -> float:
    """A duration above zero."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def count(text: str) -> int:
    """An integer above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def output(text: str) -> Path:
    """A file that can be written; the folder that it goes to may not be there yet."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder, not a file")
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not os.access(there, os.W_OK) or not (there == path or there.is_dir()):
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {there} does not let you")
    return path


def picture(text: str) -> Path:
    """A picture that can be written."""
    path = output(text)
    if path.suffix.lower() not in _PICTURES:
        raise argparse.ArgumentTypeError(f"{text} does not end in one of {', '.join(_PICTURES)}")
    return path
