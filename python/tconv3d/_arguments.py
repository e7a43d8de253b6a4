"""Checks and completes the arguments as PyTorch's argument parser does: same exception types, values in the message."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import torch

#: One value for all spatial dimensions, or one each in the order d, h, w.
Size3 = Union[int, Sequence[int]]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def integer(name: str, value: Any, shown: Any = None) -> int:
    """`value` as a 64-bit integer. `shown` is what the message quotes when `value` is one of several."""
    if type(value) is int and _INT64_MIN <= value <= _INT64_MAX:  # what most callers pass
        return value
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]
    plain = isinstance(value, int) and not isinstance(value, bool)
    number: int = value if plain else _index(name, value, value if shown is None else shown)
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise ValueError(f"conv_transpose3d(): argument '{name}' does not fit in 64 bits ({name}={number})")
    return number


class Parameters(NamedTuple):
    """The five arguments after the tensors, checked, in the order of PyTorch's operator."""

    stride: Size3
    padding: Size3
    output_padding: Size3
    groups: int
    dilation: Size3

    @staticmethod
    def checked(stride: Any, padding: Any, output_padding: Any, groups: Any, dilation: Any) -> Parameters:
        """From what the user gave."""
        return Parameters(
            triple("stride", stride),
            triple("padding", padding),
            triple("output_padding", output_padding),
            integer("groups", groups),
            triple("dilation", dilation),
        )

    def shortened(self) -> Parameters:
        """One integer in the place of three equal ones, as PyTorch's operators take it: each list that they read costs
        a call a tenth of a microsecond. Not for integers that torch.compile may know as symbols alone."""
        stride, padding, output_padding, groups, dilation = self
        return Parameters(_one(stride), _one(padding), _one(output_padding), groups, _one(dilation))


def triple(name: str, value: Any) -> Sequence[int]:
    """One integer per spatial dimension from an integer or a sequence of one or three."""
    if not isinstance(value, (tuple, list)):
        return (integer(name, value),) * 3
    numbers = [integer(name, each, value) for each in value]
    if len(numbers) not in (1, 3):
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of 3 values to match the convolution dimensions, "
            f"but got {name}={numbers}"
        )
    return numbers * 3 if len(numbers) == 1 else numbers


def _one(numbers: Any) -> Size3:
    one: Size3 = numbers[0] if len(set(numbers)) == 1 else numbers
    return one


def _index(name: str, value: Any, shown: Any) -> int:
    """Integers of other libraries and integer tensors of one element; bool is an int to Python but not to PyTorch."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"conv_transpose3d(): argument '{name}' must be int, not {_type(value)} ({name}={shown!r})")


def require_tensor(name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"conv_transpose3d(): argument '{name}' must be Tensor, not {_type(value)}")


def _type(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
