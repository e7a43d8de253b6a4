"""Existing code on tconv3d: swap the modules of a model, or the function under all of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

from .fallback import torch_conv_transpose3d
from .functional import conv_transpose3d
from .nn import ConvTranspose3d, LazyConvTranspose3d

_REPLACEMENT: dict[type, type] = {
    nn.ConvTranspose3d: ConvTranspose3d,
    nn.LazyConvTranspose3d: LazyConvTranspose3d,
}


@dataclass(frozen=True)
class AccelerateReport:
    """What `accelerate` did, by the modules' names; prints itself."""

    swapped: tuple[str, ...]
    #: Name and reason of each transposed convolution that was left as it was.
    left: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"tconv3d: {len(self.swapped)} swapped, {len(self.left)} left"]
        lines += [f"  swapped  {name or '(the model itself)'}" for name in self.swapped]
        lines += [f"  left     {name or '(the model itself)'}: {why}" for name, why in self.left]
        return "\n".join(lines)


def accelerate(model: nn.Module) -> AccelerateReport:
    """Makes every ``nn.ConvTranspose3d`` of `model` a ``tconv3d.ConvTranspose3d``, in place.

    Parameters, buffers, hooks, training flags and parametrizations stay as they are. Calling it again changes nothing.

    >>> import tconv3d
    >>> from torch import nn
    >>> model = nn.Sequential(nn.ConvTranspose3d(8, 4, 2, stride=2), nn.ReLU())
    >>> print(tconv3d.accelerate(model))
    tconv3d: 1 swapped, 0 left
      swapped  0
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"accelerate: expected a torch.nn.Module, not {model!r}")
    swapped: list[str] = []
    left: list[tuple[str, str]] = []
    for name, module in model.named_modules():
        if not _is_transposed_convolution(module):
            continue
        why = _why_left(module)
        if why is None:
            _swap(module)
            swapped.append(name)
        else:
            left.append((name, why))
    return AccelerateReport(tuple(swapped), tuple(left))


def _is_transposed_convolution(module: nn.Module) -> bool:
    scripted = isinstance(module, torch.jit.ScriptModule) and module.original_name == "ConvTranspose3d"
    return scripted or isinstance(module, nn.ConvTranspose3d)


def _why_left(module: nn.Module) -> str | None:
    kind = _plain_type(module)
    if isinstance(module, ConvTranspose3d):
        return "is tconv3d's already"
    if isinstance(module, torch.jit.ScriptModule):
        return "is compiled TorchScript; accelerate the model before scripting it"
    if kind not in _REPLACEMENT:
        return f"is a {kind.__module__}.{kind.__qualname__}, a subclass that may compute something else"
    if "forward" in vars(module):
        return "has a forward of its own, set on the module"
    return None


def _plain_type(module: nn.Module) -> type:
    """The class beneath the one that torch.nn.utils.parametrize makes for each parametrized module."""
    kind = type(module)
    return kind.__bases__[0] if parametrize.is_parametrized(module) else kind


def _swap(module: nn.Module) -> None:
    # Changing the class keeps the object, and with it everything that refers to it or hangs on it: hooks, optimizers,
    # weight norm, shared parameters, other modules that hold it. A copy would have to be told about each of them.
    replacement = _REPLACEMENT[_plain_type(module)]
    if parametrize.is_parametrized(module):
        # The generated class carries the parametrized tensors as properties; copies of the module may share it, so it
        # is made anew on top of ours instead of being changed.
        members = {k: v for k, v in vars(type(module)).items() if k not in ("__dict__", "__weakref__")}
        replacement = type(type(module).__name__, (replacement,), members)
    module.__class__ = replacement


def is_enabled() -> bool:
    """Whether ``torch.nn.functional.conv_transpose3d`` is tconv3d's."""
    return F.conv_transpose3d is conv_transpose3d


class Switch:
    """The result of `enable` and `disable`: as a context manager it puts back what was there before."""

    def __init__(self, on: bool) -> None:
        self._before = F.conv_transpose3d
        F.conv_transpose3d = conv_transpose3d if on else torch_conv_transpose3d  # type: ignore[assignment]

    def __enter__(self) -> Switch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        F.conv_transpose3d = self._before


def enable() -> Switch:
    """Lets ``F.conv_transpose3d``, and so every unchanged ``nn.ConvTranspose3d``, use tconv3d.

    It holds until `disable`, or to the end of a ``with`` block, which then restores what was before; blocks nest. The
    function is a global of PyTorch: all threads see the change, so do not open and close blocks in several threads at
    once. Code that took the function before (``from torch.nn.functional import conv_transpose3d``) keeps PyTorch's.

    >>> import tconv3d
    >>> with tconv3d.enable():
    ...     tconv3d.is_enabled()
    True
    >>> tconv3d.is_enabled()
    False
    """
    return Switch(on=True)


def disable() -> Switch:
    """Gives ``F.conv_transpose3d`` back to PyTorch: for good, or within a ``with`` block."""
    return Switch(on=False)
