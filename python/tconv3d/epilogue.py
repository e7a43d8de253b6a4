"""The chain of pointwise steps that is applied to the result before it is stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

import torch
import torch.nn.functional as F
from torch import Tensor

Number = Union[int, float]


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
        return self.method.startswith(("channel_", "residual_"))


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
    """

    steps: tuple[Step, ...] = ()
    #: The tensors of the channel_* and residual_* steps, in the order of the steps.
    operands: tuple[Tensor, ...] = ()

    @property
    def text(self) -> str:
        """The chain as the C++ library reads it."""
        return " ".join([step.text for step in self.steps])

    def add(self, value: Number) -> Epilogue:
        return self._then("add", value=_finite("add", "value", value))

    def mul(self, value: Number) -> Epilogue:
        return self._then("mul", value=_finite("mul", "value", value))

    def div(self, value: Number) -> Epilogue:
        if _finite("div", "value", value) == 0:
            raise ValueError(f"Epilogue.div: division by zero (value={value})")
        return self._then("div", value=float(value))

    def clamp(self, min: Number | None = None, max: Number | None = None) -> Epilogue:
        if min is None and max is None:
            raise ValueError("Epilogue.clamp: give min, max or both (min=None, max=None)")
        bounds = {"min": min, "max": max}
        return self._then("clamp", **{k: _finite("clamp", k, v) for k, v in bounds.items() if v is not None})

    def relu(self) -> Epilogue:
        return self._then("relu")

    def leaky_relu(self, negative_slope: Number = 0.01) -> Epilogue:
        return self._then("leaky_relu", negative_slope=_finite("leaky_relu", "negative_slope", negative_slope))

    def elu(self, alpha: Number = 1.0) -> Epilogue:
        return self._then("elu", alpha=_finite("elu", "alpha", alpha))

    def silu(self) -> Epilogue:
        return self._then("silu")

    def gelu(self, approximate: str = "none") -> Epilogue:
        if approximate not in ("none", "tanh"):
            raise ValueError(f"Epilogue.gelu: approximate must be 'none' or 'tanh', not {approximate!r}")
        return self._then("gelu", approximate=approximate)

    def sigmoid(self) -> Epilogue:
        return self._then("sigmoid")

    def tanh(self) -> Epilogue:
        return self._then("tanh")

    def hardswish(self) -> Epilogue:
        return self._then("hardswish")

    def softplus(self, beta: Number = 1.0, threshold: Number = 20.0) -> Epilogue:
        if _finite("softplus", "beta", beta) == 0:
            raise ValueError(f"Epilogue.softplus: beta must not be zero (beta={beta})")
        return self._then("softplus", beta=float(beta), threshold=_finite("softplus", "threshold", threshold))

    def mish(self) -> Epilogue:
        return self._then("mish")

    def channel_add(self, operand: Tensor) -> Epilogue:
        """Adds one value per output channel."""
        return self._then_tensor("channel_add", operand)

    def channel_mul(self, operand: Tensor) -> Epilogue:
        """Multiplies by one value per output channel."""
        return self._then_tensor("channel_mul", operand)

    def residual_add(self, operand: Tensor) -> Epilogue:
        """Adds a tensor of the output's shape."""
        return self._then_tensor("residual_add", operand)

    def residual_mul(self, operand: Tensor) -> Epilogue:
        """Multiplies by a tensor of the output's shape."""
        return self._then_tensor("residual_mul", operand)

    def __call__(self, x: Tensor) -> Tensor:
        """Applies the chain to `x` (N, C, D, H, W or C, D, H, W) with PyTorch's operators."""
        operands = iter(self.operands)
        for step in self.steps:
            operand = (_in_type_of(x, next(operands)),) if step.takes_operand else ()
            x = _APPLY[step.method](x, *operand, **dict(step.constants))
        return x

    def __repr__(self) -> str:
        operands = iter(self.operands)
        return "Epilogue()" + "".join(_call_text(step, operands) for step in self.steps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Epilogue):
            return NotImplemented
        return self.steps == other.steps and all(map(_same_tensor, self.operands, other.operands))

    def __hash__(self) -> int:
        return hash(self.steps)

    def _then(self, method: str, **constants: float | str) -> Epilogue:
        return Epilogue((*self.steps, Step(method, tuple(constants.items()))), self.operands)

    def _then_tensor(self, method: str, operand: Tensor) -> Epilogue:
        if not isinstance(operand, Tensor):
            raise TypeError(f"Epilogue.{method}: the operand must be a tensor, not {operand!r}")
        if method.startswith("channel_") and operand.dim() != 1:
            raise ValueError(
                f"Epilogue.{method}: the operand must have one dimension, one value per output channel, "
                f"but its shape is {list(operand.shape)}"
            )
        return Epilogue((*self.steps, Step(method)), (*self.operands, operand))


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
    "residual_add": lambda x, operand: x + operand,
    "residual_mul": lambda x, operand: x * operand,
}


def _in_type_of(x: Tensor, operand: Tensor) -> Tensor:
    """Under autocast `x` may be a half where the operand is not; like the fused chain, the result stays in x's type."""
    return operand.to(x.dtype) if x.is_floating_point() and operand.is_floating_point() else operand


def _finite(method: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"Epilogue.{method}: {name} must be a number, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"Epilogue.{method}: {name} must be finite, not {value}")
    return float(value)


def _digits(value: float | str) -> str:
    """The shortest decimal form that reads back as the same number: `2`, `0.5`, `1e-05`."""
    text = repr(value)
    return text[:-2] if text.endswith(".0") else text


def _call_text(step: Step, operands: Any) -> str:
    if step.takes_operand:
        operand = next(operands)
        return f".{step.method}({type(operand).__name__}{list(operand.shape)})"
    named = step.method in ("clamp", "softplus")
    default_gelu = step.method == "gelu" and dict(step.constants)["approximate"] == "none"
    constants = () if default_gelu else step.constants
    return f".{step.method}({', '.join(f'{name}={value!r}' if named else repr(value) for name, value in constants)})"


def _same_tensor(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.dtype == b.dtype and a.device == b.device and torch.equal(a, b))
