"""The function under all modules: torch.nn.functional.conv_transpose3d on tconv3d, in a block or for good."""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import torch.nn.functional as F

from .fallback import torch_conv_transpose3d
from .functional import conv_transpose3d

_Function = TypeVar("_Function", bound=Callable[..., Any])

_lock = threading.Lock()
#: Numbers what is begun, so that the latest can be found.
_numbers = itertools.count(1)
#: The latest call of enable or disable outside of a block: its number, and whether it was enable.
_lasting = (0, False)
#: The same of the blocks that are open, in whatever thread.
_blocks: dict[int, bool] = {}
#: Switches that may still begin a block.
_switches: weakref.WeakSet[Switch] = weakref.WeakSet()


def is_enabled() -> bool:
    """Whether ``torch.nn.functional.conv_transpose3d`` is tconv3d's."""
    return F.conv_transpose3d is conv_transpose3d


class Switch:
    """The result of `enable` and `disable`: as a context manager or decorator it holds for the block or the calls."""

    def __init__(self, on: bool) -> None:
        global _lasting
        with _lock:
            self._on = on
            self._before = _lasting
            self._made = next(_numbers)
            self._open: list[int] = []
            _lasting = (self._made, on)
            _switches.add(self)
            _apply()

    def __enter__(self) -> Switch:
        with _lock:
            self._take_back()
            self._open.append(next(_numbers))
            _blocks[self._open[-1]] = self._on
            _apply()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _lock:
            del _blocks[self._open.pop()]
            _apply()

    def __call__(self, function: _Function) -> _Function:
        """Decorates `function`: the switch holds while it runs."""
        with _lock:
            self._take_back()
            _apply()
        if isinstance(function, type):
            raise TypeError(f"{function.__qualname__} is a class, which would become a function: decorate its methods")
        pieces = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        if any(runs_in_pieces(function) for runs_in_pieces in pieces):
            raise TypeError(
                f"{function.__qualname__} runs in pieces, between which other code would see the switch: "
                "use a with block inside of it"
            )
        on = self._on

        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            with Switch(on):
                return function(*args, **kwargs)

        return switched  # type: ignore[return-value]

    def _take_back(self) -> None:
        """What began when the switch was made was meant for a block or a function alone: forgets it, also where
        another switch, made meanwhile in another thread, would come back to it."""
        global _lasting
        if _lasting[0] == self._made:
            _lasting = self._before
        for other in _switches:
            if other._before[0] == self._made:
                other._before = self._before


def _apply() -> None:
    """The latest of what holds decides, whatever order the blocks end in."""
    _, on = max((*_blocks.items(), _lasting))
    F.conv_transpose3d = conv_transpose3d if on else torch_conv_transpose3d  # type: ignore[assignment]


def enable() -> Switch:
    """Lets ``F.conv_transpose3d``, and so every unchanged ``nn.ConvTranspose3d``, use tconv3d.

    It holds until `disable`, or for a ``with`` block, or while a function runs that it decorates. Blocks nest. The
    function is a global of PyTorch: all threads see the change. Blocks of several threads may overlap in any order; of
    what holds, the latest begun decides, and when the last block ends, what was called outside of blocks. Code that
    took the function before (``from torch.nn.functional import conv_transpose3d``) keeps PyTorch's. Around the call of
    what ``torch.compile`` has compiled it needs no graph break; within, it breaks the graph.

    >>> import tconv3d
    >>> with tconv3d.enable():
    ...     tconv3d.is_enabled()
    True
    >>> tconv3d.is_enabled()
    False
    >>> @tconv3d.enable()
    ... def predict():
    ...     return tconv3d.is_enabled()
    >>> predict(), tconv3d.is_enabled()
    (True, False)
    """
    return Switch(on=True)


def disable() -> Switch:
    """Gives ``F.conv_transpose3d`` back to PyTorch: for good, within a ``with`` block or in a decorated function."""
    return Switch(on=False)
