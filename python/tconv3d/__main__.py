"""The command line: `python -m tconv3d doctor | explain | bench | precompile | tune | demo`."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence

from . import __version__
from .cli import bench, demo, doctor, explain, precompile, tune

_COMMANDS = {
    "doctor": doctor,
    "explain": explain,
    "bench": bench,
    "precompile": precompile,
    "tune": tune,
    "demo": demo,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tconv3d", description="3D transposed convolution for PyTorch")
    parser.add_argument("--version", action="version", version=f"tconv3d {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in _COMMANDS.items():
        text = (module.__doc__ or "").splitlines()[0]
        module.add_arguments(commands.add_parser(name, help=text, description=text))
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that has no × shows another sign, after minutes of timing
        sys.stdout.reconfigure(errors="replace")
    try:
        code = int(_COMMANDS[options.command].run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough, as `| head` has; nothing is left to be flushed at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"tconv3d {options.command}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"tconv3d {options.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
