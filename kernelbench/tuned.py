"""PyTorch as tuned as cuDNN gets, in a process of its own: a plan that cuDNN once chose for some extents stays.

The process reads the name of a problem a line and answers each with a line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from types import TracebackType

import torch
from measure import Settings, build_plain, interleaved_medians, load, make_inputs
from torch import nn


@torch.no_grad()
def tuned_times(problem: str, settings: Settings) -> dict[str, float]:
    """Medians of PyTorch's module with cudnn.benchmark: in both layouts, input included, and compiled."""
    module = load(problem, settings)
    plain, last = (build_plain(problem, module, settings.device) for _ in range(2))
    for child in last.children():
        # The others' parameters have no such layout; some have four dimensions, which the conversion refuses.
        if isinstance(child, nn.ConvTranspose3d):
            child.to(memory_format=torch.channels_last_3d)
    inputs = make_inputs(module, settings.device, 1)
    inputs_last = [x.to(memory_format=torch.channels_last_3d) for x in inputs]
    calls = {"tuned_ms": lambda: plain(*inputs), "tuned_ndhwc_ms": lambda: last(*inputs_last)}
    if settings.compile:
        torch._dynamo.reset()
        compiled = torch.compile(plain, dynamic=False)
        calls["tuned_compiled_ms"] = lambda: compiled(*inputs)
    return interleaved_medians(calls, settings)


def answers(problems: Iterable[str], settings: Settings) -> Iterator[str]:
    for problem in problems:
        yield json.dumps(tuned_times(problem.strip(), settings))
        if settings.device == "cuda":
            torch.cuda.empty_cache()


class TunedProcess:
    """The process, begun when entered. It shares the GPU, so that it must be asked between other measurements."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __enter__(self) -> TunedProcess:
        facts = {**asdict(self._settings), "allow_tf32": torch.backends.cudnn.allow_tf32}
        command = [sys.executable, __file__, json.dumps(facts)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def times(self, problem: str) -> dict[str, float]:
        self._process.stdin.write(problem + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process that tunes PyTorch ended at {problem} with status {self._process.wait()}")
        return json.loads(line)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    facts = json.loads(sys.argv[1])
    torch.backends.cudnn.allow_tf32 = facts.pop("allow_tf32")
    torch.backends.cudnn.benchmark = True
    for line in answers(sys.stdin, Settings(**facts)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
