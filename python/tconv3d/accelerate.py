"""A model as it is, on tconv3d: swap its modules, say what was done, undo it."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, Union, cast

import torch
from torch import nn

from . import _cpu_estimate, _fusion, _library
from ._activations import has_own_forward
from .nn import ConvTranspose3d, LazyConvTranspose3d

#: A module's name, a name with wildcards, the name or type of a module that contains it, or several of these.
Selection = Union[str, type, Iterable[Union[str, type]]]
_Model = TypeVar("_Model", bound=nn.Module)

_REPLACEMENT: dict[type, type] = {
    nn.ConvTranspose3d: ConvTranspose3d,
    nn.LazyConvTranspose3d: LazyConvTranspose3d,
}
#: Attributes of a model and of its modules.
_REPORT = "_tconv3d_report"
_SWAPPED = "_swapped_by_accelerate"
_REPLACED = {ours: theirs for theirs, ours in _REPLACEMENT.items()}


@dataclass(frozen=True)
class AccelerateReport:
    """What `accelerate` did, by the modules' names; prints itself."""

    #: The modules that are tconv3d's by `accelerate`.
    swapped: tuple[str, ...]
    #: Name and reason of each transposed convolution that was left as it was.
    left: tuple[tuple[str, str], ...]
    #: Name and reason of each swapped module whose output PyTorch's operator computes while it is on the CPU.
    left_on_cpu: tuple[tuple[str, str], ...] = ()
    #: Name of a transposed convolution, and the modules behind it that it computes.
    fused: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: Name of a transposed convolution, and the BatchNorm3d behind it that it would compute, were that in eval mode.
    in_training: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if not self.swapped and not self.left:
            return (
                "tconv3d: no nn.ConvTranspose3d among the modules (calls of F.conv_transpose3d are taken by "
                "tconv3d.enable())"
            )
        counts = f"{len(self.swapped)} swapped, {len(self.left)} left"
        if self.left_on_cpu:
            counts += f", {len(self.left_on_cpu)} of the swapped computed by PyTorch on the CPU"
        lines = [f"tconv3d: {counts}"]
        on_cpu, fused = dict(self.left_on_cpu), dict(self.fused)
        for name in self.swapped:
            lines.append(f"  swapped  {_shown(name)}")
            if name in on_cpu:
                lines.append(
                    f"           on the CPU PyTorch's operator computes it, expected to be faster: {on_cpu[name]}"
                )
        lines += [f"  left     {_shown(name)}: {why}" for name, why in self.left]
        lines += [f"  fused    {_shown(name)} with {', '.join(what)}" for name, what in fused.items()]
        for name, norm in self.in_training:
            lines.append(f"  apart    {_shown(name)} and {norm}, which is in training mode: after model.eval(),")
            lines.append("           accelerate(model, fuse=True) fuses them")
        return "\n".join(lines)


def accelerate(
    model: _Model,
    *,
    only: Selection | None = None,
    skip: Selection | None = None,
    fuse: bool = False,
    always: bool = False,
    verbose: bool = False,
) -> _Model:
    """Makes the ``nn.ConvTranspose3d`` modules of `model` ``tconv3d.ConvTranspose3d``, in place, and returns `model`.

    Parameters, buffers, hooks, training flags, parametrizations and the keys of the ``state_dict`` stay as they are.
    Calling it again changes nothing; `restore` undoes it. `report` tells what was done; ``verbose=True`` prints it.

    On a GPU every swapped module is computed by tconv3d. On the CPU one that is expected to be slower than PyTorch's
    operator is left to that, and the report says why; with ``always=True`` tconv3d computes it too. Which of both is
    decided at each call by the device of the input, so that a model may be moved later.

    `only` and `skip` choose modules: by name (``"decoder.up1"``), by a name with wildcards (``"*.up?"``), or by the
    name or type of a module that contains them (``"decoder"``, ``UpBlock``).

    ``fuse=True`` lets a transposed convolution compute what follows it in an ``nn.Sequential``: activations that an
    ``Epilogue`` has steps for, and, where the model is in eval mode, a BatchNorm3d and the activations behind it. In
    training mode such a BatchNorm3d computes for itself, as ever. A placeholder keeps the place of each activation. The
    Sequential must be called as a whole: code that calls a module or a slice of it by itself gets the output with what
    was fused. A transposed convolution with hooks (a lazy one has some until its first input), or one that is in
    several places, keeps its own output. Where you later put other modules between them, take some out or register
    hooks, for them or for all modules, each computes for itself.

    >>> import tconv3d
    >>> from torch import nn
    >>> model = nn.Sequential(nn.ConvTranspose3d(8, 4, 2, stride=2), nn.ReLU())
    >>> model = tconv3d.accelerate(model, fuse=True, verbose=True)
    tconv3d: 1 swapped, 0 left
      swapped  0
      fused    0 with 1 (ReLU)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"accelerate: expected a torch.nn.Module, not {_described(model)}")
    _library.require()
    names = _names(model)
    selected = _selected(model, names, only, skip)
    left: list[tuple[str, str]] = []
    for module, (name, *_) in names.items():
        why = selected[module] or _why_left(module)
        if why is None:
            _swap(module, always)
        elif not _is_swapped(module):
            left.append((name, why))
    fused = _fusion.fuse(model, {module for module in names if selected[module] is None}) if fuse else {}
    _set_report(model, names, left, fused)
    if verbose:
        print(report(model))
    return model


def report(model: nn.Module) -> AccelerateReport:
    """What `accelerate` did to `model`, the last time.

    >>> import tconv3d
    >>> from torch import nn
    >>> print(tconv3d.report(tconv3d.accelerate(nn.Sequential(nn.ConvTranspose3d(3, 4, 2)))))
    tconv3d: 1 swapped, 0 left
      swapped  0
    """
    found = vars(model).get(_REPORT) if isinstance(model, nn.Module) else None
    if found is None:
        raise ValueError(f"report: tconv3d.accelerate was not called on this {type(model).__name__}")
    result: AccelerateReport = found
    return result


def restore(model: _Model) -> _Model:
    """Undoes `accelerate`, in place, and returns `model`: classes, activations and BatchNorms are what they were.
    A module that was given an epilogue since stays tconv3d's, because PyTorch's has none. So does one on which a
    ``forward`` was set since, as libraries do that offload parameters, because that may call tconv3d's.

    >>> import tconv3d
    >>> from torch import nn
    >>> tconv3d.restore(tconv3d.accelerate(nn.Sequential(nn.ConvTranspose3d(8, 4, 2), nn.ReLU()), fuse=True))
    Sequential(
      (0): ConvTranspose3d(8, 4, kernel_size=(2, 2, 2), stride=(1, 1, 1))
      (1): ReLU()
    )
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"restore: expected a torch.nn.Module, not {_described(model)}")
    _fusion.unfuse(model)
    for module in model.modules():
        vars(module).pop(_REPORT, None)
        if _is_swapped(module) and not has_own_forward(module):
            for name in (_SWAPPED, "_leaves_cpu", "_checked_parameters"):
                vars(module).pop(name, None)
            if module.epilogue is None:
                _set_class(module, _REPLACED[_plain_type(module)])
    return model


def _described(value: object) -> str:
    """A class by its name, and all else by its type: the text of a state_dict or a list of models fills the screen."""
    if isinstance(value, type):
        return f"the class {value.__qualname__}, of which it takes an instance"
    return f"a value of the type {type(value).__qualname__}"


def _shown(name: str) -> str:
    return name or "(the model itself)"


def _names(model: nn.Module) -> dict[nn.Module, list[str]]:
    """All names of each transposed convolution; a module that is held twice has two."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if _is_transposed_convolution(module):
            names.setdefault(module, []).append(name)
    return names


def _selected(
    model: nn.Module, names: dict[nn.Module, list[str]], only: Selection | None, skip: Selection | None
) -> dict[nn.Module, str | None]:
    """For each transposed convolution, why `only` and `skip` leave it; None where they do not."""
    modules = dict(model.named_modules(remove_duplicate=False))
    chosen = None if only is None else _matches("only", only, names, modules)
    skipped = set() if skip is None else _matches("skip", skip, names, modules)
    return {
        module: "is in skip" if module in skipped else None if chosen is None or module in chosen else "is not in only"
        for module in names
    }


def _matches(
    argument: str, selection: Selection, names: dict[nn.Module, list[str]], modules: dict[str, nn.Module]
) -> set[nn.Module]:
    """The transposed convolutions that are selected, or lie in a module that is."""
    several = isinstance(selection, Iterable) and not isinstance(selection, (str, type))
    parts: tuple[Any, ...] = tuple(cast("Iterable[Any]", selection)) if several else (selection,)
    found: set[nn.Module] = set()
    for part in parts:
        if not isinstance(part, (str, type)):
            raise TypeError(f"accelerate: {argument} takes names and types of modules, not {part!r}")
        matching = {
            module
            for module, own in names.items()
            if any(_is_match(part, path, modules) for name in own for path in _paths(name))
        }
        if isinstance(part, str) and not matching:
            known = ", ".join(sorted(_shown(name) for own in names.values() for name in own))
            there = f"none of the transposed convolutions: {known}" if known else "nothing: the model has none to swap"
            raise ValueError(f"accelerate: {argument}={part!r} matches {there}")
        found |= matching
    return found


def _paths(name: str) -> list[str]:
    """`a.b.c` → ["a", "a.b", "a.b.c"]: the modules around it, without the model, and itself."""
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _is_match(part: str | type, path: str, modules: dict[str, nn.Module]) -> bool:
    return fnmatch.fnmatchcase(path, part) if isinstance(part, str) else isinstance(modules[path], part)


def _set_report(
    model: nn.Module,
    names: dict[nn.Module, list[str]],
    left: list[tuple[str, str]],
    fused: dict[nn.Module, _fusion.Behind],
) -> None:
    before = vars(model).get(_REPORT)
    swapped = [module for module in names if _is_swapped(module)]
    vars(model)[_REPORT] = AccelerateReport(
        tuple(names[module][0] for module in swapped),
        tuple(left),
        tuple((names[module][0], _why_slower(module)) for module in swapped if vars(module).get("_leaves_cpu")),
        (
            *(before.fused if before is not None else ()),
            *((names[module][0], tuple(behind.fused)) for module, behind in fused.items() if behind.fused),
        ),
        tuple((names[module][0], behind.in_training) for module, behind in fused.items() if behind.in_training),
    )


def _why_slower(module: Any) -> str:
    return _cpu_estimate.why_slower(module) or ""


def _is_swapped(module: nn.Module) -> bool:
    return _SWAPPED in vars(module)


def _is_transposed_convolution(module: nn.Module) -> bool:
    scripted = isinstance(module, torch.jit.ScriptModule) and module.original_name == "ConvTranspose3d"
    return scripted or isinstance(module, nn.ConvTranspose3d)


def _why_left(module: nn.Module) -> str | None:
    kind = _plain_type(module)
    if _is_swapped(module):
        return None
    if isinstance(module, ConvTranspose3d):
        return "is tconv3d's already"
    if isinstance(module, torch.jit.ScriptModule):
        return "is compiled TorchScript; accelerate the model before scripting it"
    if kind not in _REPLACEMENT:
        return (
            f"is a {kind.__module__}.{kind.__qualname__}, a subclass that may compute something else "
            "(tconv3d.enable() takes its calls of F.conv_transpose3d)"
        )
    if has_own_forward(module):
        return "has a forward of its own, set on the module (accelerate can swap it before that is set)"
    return None


def _plain_type(module: nn.Module) -> type:
    """The class beneath those that PyTorch made for this module."""
    kind = type(module)
    while _is_made_for_a_module(kind):
        kind = kind.__bases__[-1]
    return kind


def _is_made_for_a_module(kind: type) -> bool:
    """Whether PyTorch made the class at run time, as torch.nn.utils.parametrize and fully_shard do: then no file has
    it, and the class of the module that they were given is its last base."""
    return kind.__module__.startswith("torch.") and not hasattr(sys.modules[kind.__module__], kind.__name__)


def _swap(module: Any, always: bool) -> None:
    if not _is_swapped(module):
        _set_class(module, _REPLACEMENT[_plain_type(module)])
        setattr(module, _SWAPPED, True)
        module._check_parameters()
    module._leaves_cpu = not always and _cpu_estimate.why_slower(module) is not None


def _set_class(module: nn.Module, replacement: type) -> None:
    # Changing the class keeps the object, and with it everything that refers to it or hangs on it: hooks, optimizers,
    # weight norm, shared parameters, other modules that hold it. A copy would have to be told about each of them.
    module.__class__ = _on_top_of(replacement, type(module))


def _on_top_of(replacement: type, kind: type) -> type:
    """`replacement`, under the classes that PyTorch made for the module. These carry its tensors as properties, and
    copies of the module may share them, so they are made anew instead of being changed."""
    if not _is_made_for_a_module(kind):
        return replacement
    *others, beneath = kind.__bases__
    members = {k: v for k, v in vars(kind).items() if k not in ("__dict__", "__weakref__")}
    return type(kind.__name__, (*others, _on_top_of(replacement, beneath)), members)
