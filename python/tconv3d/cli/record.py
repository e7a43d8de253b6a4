"""Times of candidates, one JSON object a line: what tools/fit-cost-model reads."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from ..problem import Problem

#: What the candidates of a problem depend on, of a device of `_library.cuda_machine()`.
_DEVICE_FIELDS = ("sm", "multiprocessors", "shared_memory_per_block")


class Record:
    """A file that grows by a line for each time. Lines of earlier runs stay, and those of a run that is stopped."""

    def __init__(self, path: Path, device: dict[str, Any]) -> None:
        self._device = {"device": device["name"], **{field: device[field] for field in _DEVICE_FIELDS}}
        self._file = path.open("a", encoding="utf-8")

    def add(self, problem: Problem, implementation: str, candidate: str, ms: float) -> None:
        line = {"problem": str(problem), "implementation": implementation, "candidate": candidate, "ms": ms}
        self._file.write(json.dumps({**line, **self._device}, ensure_ascii=False) + "\n")
        self._file.flush()

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
