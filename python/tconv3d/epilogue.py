"""The chain of pointwise steps that is applied to the result before it is stored."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional, Union

import torch
import torch.nn.functional as F
from torch import Tensor

#: Python's and NumPy's real numbers.
Number = Union[int, float]
#: The tensor of a step, or None where each call brings its own.
Operand = Optional[Tensor]


@dataclass(frozen=True)
class Step:
    """One step without its tensor: the method of `Epilogue` that makes it and that method's named constants."""

    method: str
    constants: tuple[tuple[str, float | str], ...] = ()

    @property
    def text(self) -> str:
        """The form that the C++ library reads (include/tconv3d/epilogue.hpp)."""
        constants = dict(self.constants)
        if self.method == "gelu":
            return "gelu_tanh" if constants["approximate"] == "tanh" else "gelu"
        if not constants:
            return self.method
        if self.method == "clamp":
            return f"clamp({','.join(f'{name}={_digits(value)}' for name, value in self.constants)})"
        return f"{self.method}({','.join(_digits(value) for value in constants.values())})"

    @property
    def takes_operand(self) -> bool:
        """Whether the step has a tensor."""
        return self.takes_residual or self.method.startswith("channel_")

    @property
    def takes_residual(self) -> bool:
        """Whether its tensor has a value for each output, instead of one per channel."""
        return self.method.startswith("residual_")


@dataclass(frozen=True, repr=False, eq=False)
class Epilogue:
    """An immutable chain of pointwise steps; each method returns a longer chain.

    >>> from tconv3d import Epilogue
    >>> chain = Epilogue().clamp(min=-1.0).div(2.0)
    >>> chain
    Epilogue().clamp(min=-1.0).div(2.0)
    >>> chain.text
    'clamp(min=-1) div(2)'

    Calling it applies the chain with PyTorch's operators, which is what the fused form is compared with:

    >>> import torch
    >>> chain(torch.tensor([-4.0, 3.0]))
    tensor([-0.5000,  1.5000])

    The channel_* and residual_* steps have a tensor. Where it is left out the step is open, and each call brings the
    tensor, like the skip connection of a U-Net:

    >>> skip = Epilogue().residual_add().relu()
    >>> skip
    Epilogue().residual_add().relu()
    >>> skip.bind(torch.ones(2))(torch.tensor([-4.0, 3.0]))
    tensor([0., 4.])
    """

    steps: tuple[Step, ...] = ()
    #: The tensors of the channel_* and residual_* steps, in the order of the steps; None for an open step.
    operands: tuple[Operand, ...] = ()

    @property
    def text(self) -> str:
        """The chain as the C++ library reads it."""
        return " ".join([step.text for step in self.steps])

    def add(self, value: Number) -> Epilogue:
        """Adds a constant."""
        return self._then("add", value=_finite("add", "value", value))

    def mul(self, value: Number) -> Epilogue:
        """Multiplies by a constant."""
        return self._then("mul", value=_finite("mul", "value", value))

    def div(self, value: Number) -> Epilogue:
        """Divides by a constant other than zero."""
        if _finite("div", "value", value) == 0:
            raise ValueError(f"Epilogue.div: division by zero (value={value})")
        return self._then("div", value=float(value))

    def clamp(self, min: Number | None = None, max: Number | None = None) -> Epilogue:
        """``torch.clamp``. A bound of None, ``min=-inf`` or ``max=inf`` bounds nothing."""
        if min is None and max is None:
            raise ValueError("Epilogue.clamp: give min, max or both (min=None, max=None)")
        bounds: dict[str, float | str] = {}
        for name, value, unbounded in (("min", min, -math.inf), ("max", max, math.inf)):
            if value is not None and _number("clamp", name, value) != unbounded:
                bounds[name] = _finite("clamp", name, value)
        return self._then("clamp", **bounds) if bounds else self

    def relu(self) -> Epilogue:
        """``F.relu``."""
        return self._then("relu")

    def leaky_relu(self, negative_slope: Number = 0.01) -> Epilogue:
        """``F.leaky_relu``."""
        return self._then("leaky_relu", negative_slope=_finite("leaky_relu", "negative_slope", negative_slope))

    def elu(self, alpha: Number = 1.0) -> Epilogue:
        """``F.elu``."""
        return self._then("elu", alpha=_finite("elu", "alpha", alpha))

    def silu(self) -> Epilogue:
        """``F.silu``: ``x * sigmoid(x)``, also called swish."""
        return self._then("silu")

    def gelu(self, approximate: str = "none") -> Epilogue:
        """``F.gelu``; `approximate` is 'none' or 'tanh'."""
        if approximate not in ("none", "tanh"):
            raise ValueError(f"Epilogue.gelu: approximate must be 'none' or 'tanh', not {approximate!r}")
        return self._then("gelu", approximate=approximate)

    def sigmoid(self) -> Epilogue:
        """``torch.sigmoid``."""
        return self._then("sigmoid")

    def tanh(self) -> Epilogue:
        """``torch.tanh``."""
        return self._then("tanh")

    def hardswish(self) -> Epilogue:
        """``F.hardswish``."""
        return self._then("hardswish")

    def softplus(self, beta: Number = 1.0, threshold: Number = 20.0) -> Epilogue:
        """``F.softplus``; `beta` must not be zero."""
        if _finite("softplus", "beta", beta) == 0:
            raise ValueError(f"Epilogue.softplus: beta must not be zero (beta={beta})")
        return self._then("softplus", beta=float(beta), threshold=_finite("softplus", "threshold", threshold))

    def mish(self) -> Epilogue:
        """``F.mish``."""
        return self._then("mish")

    def channel_add(self, operand: Tensor | None = None) -> Epilogue:
        """Adds one value per output channel; without an operand, each call brings it."""
        return self._then_tensor("channel_add", operand)

    def channel_mul(self, operand: Tensor | None = None) -> Epilogue:
        """Multiplies by one value per output channel; without an operand, each call brings it."""
        return self._then_tensor("channel_mul", operand)

    def residual_add(self, operand: Tensor | None = None) -> Epilogue:
        """Adds a tensor that broadcasts to the output's shape; without an operand, each call brings it."""
        return self._then_tensor("residual_add", operand)

    def residual_mul(self, operand: Tensor | None = None) -> Epilogue:
        """Multiplies by a tensor that broadcasts to the output's shape; without an operand, each call brings it."""
        return self._then_tensor("residual_mul", operand)

    def then(self, activation: Any) -> Epilogue:
        """This chain followed by another one, or by an activation of PyTorch: a module, a function, or an
        ``nn.Sequential`` of modules.

        >>> from torch import nn
        >>> Epilogue().mul(2.0).then(nn.Sequential(nn.LeakyReLU(0.2), nn.Tanh()))
        Epilogue().mul(2.0).leaky_relu(0.2).tanh()
        """
        from ._activations import as_epilogue  # it is written in terms of this class

        other = as_epilogue(activation, "Epilogue.then: activation")
        return Epilogue((*self.steps, *other.steps), (*self.operands, *other.operands))

    def bind(self, *operands: Tensor) -> Epilogue:
        """The chain with these tensors in its open steps, in their order."""
        bound, rest = list(self.operands), iter(operands)
        open_steps = [(i, step) for i, step in enumerate(self._steps_with_operand()) if bound[i] is None]
        if len(open_steps) != len(operands):
            raise ValueError(
                f"{self!r} takes {_tensors(len(open_steps))} at each call, one for each step without its own, "
                f"but got {_tensors(len(operands))} (operands= of a module, bind() of an epilogue)"
            )
        for i, step in open_steps:
            bound[i] = _checked_operand(step.method, next(rest))
        return Epilogue(self.steps, tuple(bound))

    @property
    def is_open(self) -> bool:
        """Whether a step has no tensor yet."""
        return None in self.operands if self.operands else False

    def __call__(self, x: Tensor) -> Tensor:
        """Applies the chain to `x` (N, C, D, H, W or C, D, H, W) with PyTorch's operators."""
        operands = iter(self.bound_operands())
        for step in self.steps:
            operand = (_in_type_of(x, next(operands)),) if step.takes_operand else ()
            x = _APPLY[step.method](x, *operand, **dict(step.constants))
        return x

    def bound_operands(self) -> list[Tensor]:
        """The tensors of all steps; an error where one is missing."""
        bound = [operand for operand in self.operands if operand is not None]
        if len(bound) != len(self.operands):
            raise ValueError(
                f"{self!r} has a step without its tensor: give it to the step, to bind() of the epilogue, "
                "or as operands= to the call of the module"
            )
        return bound

    def __repr__(self) -> str:
        operands = iter(self.operands)
        return "Epilogue()" + "".join(_call_text(step, operands) for step in self.steps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Epilogue):
            return NotImplemented
        return self.steps == other.steps and all(map(_same_tensor, self.operands, other.operands))

    def __hash__(self) -> int:
        return hash(self.steps)

    def _steps_with_operand(self) -> Iterator[Step]:
        return (step for step in self.steps if step.takes_operand)

    def _then(self, method: str, **constants: float | str) -> Epilogue:
        return Epilogue((*self.steps, Step(method, tuple(constants.items()))), self.operands)

    def _then_tensor(self, method: str, operand: Tensor | None) -> Epilogue:
        checked = None if operand is None else _checked_operand(method, operand)
        return Epilogue((*self.steps, Step(method)), (*self.operands, checked))


_APPLY: dict[str, Callable[..., Tensor]] = {
    "add": lambda x, value: x + value,
    "mul": lambda x, value: x * value,
    "div": lambda x, value: x / value,
    "clamp": torch.clamp,
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "silu": F.silu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "mish": F.mish,
    # (C, 1, 1, 1) meets the channels of both (N, C, D, H, W) and (C, D, H, W).
    "channel_add": lambda x, operand: x + operand.view(-1, 1, 1, 1),
    "channel_mul": lambda x, operand: x * operand.view(-1, 1, 1, 1),
    # A residual must not make the result larger, as PyTorch's broadcasting would.
    "residual_add": lambda x, operand: x + operand.expand_as(x),
    "residual_mul": lambda x, operand: x * operand.expand_as(x),
}


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count} tensors"


def _in_type_of(x: Tensor, operand: Tensor) -> Tensor:
    """Under autocast `x` may be a half where the operand is not; like the fused chain, the result stays in x's type."""
    return operand.to(x.dtype) if x.is_floating_point() and operand.is_floating_point() else operand


def _checked_operand(method: str, operand: Any) -> Tensor:
    if not isinstance(operand, Tensor):
        raise TypeError(f"Epilogue.{method}: the operand must be a tensor, not {operand!r}")
    if method.startswith("channel_") and operand.dim() != 1:
        raise ValueError(
            f"Epilogue.{method}: the operand must have one dimension, one value per output channel, "
            f"but its shape is {list(operand.shape)}"
        )
    return operand


def _number(method: str, name: str, value: Any) -> float:
    # NumPy's scalars are numbers.Real. int and float are too, but torch.compile cannot trace that they are.
    if isinstance(value, bool) or not isinstance(value, (int, float, numbers.Real)):
        raise TypeError(f"Epilogue.{method}: {name} must be a number, not {value!r}")
    return float(value)


def _finite(method: str, name: str, value: Any) -> float:
    number = _number(method, name, value)
    if not math.isfinite(number):
        raise ValueError(f"Epilogue.{method}: {name} must be finite, not {value}")
    return number


def _digits(value: float | str) -> str:
    """The shortest decimal form that reads back as the same number: `2`, `0.5`, `1e-05`."""
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def _call_text(step: Step, operands: Any) -> str:
    if step.takes_operand:
        operand = next(operands)
        shown = "" if operand is None else f"{type(operand).__name__}{list(operand.shape)}"
        return f".{step.method}({shown})"
    named = step.method in ("clamp", "softplus")
    default_gelu = step.method == "gelu" and dict(step.constants)["approximate"] == "none"
    constants = () if default_gelu else step.constants
    return f".{step.method}({', '.join(f'{name}={value!r}' if named else repr(value) for name, value in constants)})"


def _same_tensor(a: Operand, b: Operand) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or (a.dtype == b.dtype and a.device == b.device and torch.equal(a, b))
