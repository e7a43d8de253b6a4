"""tconv3d's operator in PyTorch's operators, for programs that shall run where tconv3d is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .epilogue import Epilogue, Step

#: `name` or `name(constants)`, as `Step.text` writes it.
_STEP = re.compile(r"(\w+)(?:\(([^)]*)\))?")


def decompositions() -> dict[Any, Callable[..., Tensor]]:
    """A table for ``ExportedProgram.run_decompositions``: conv_transpose3d, then the epilogue step by step.

    The program that comes out has PyTorch's operators alone, so that it runs without tconv3d and other exporters know
    all of it.

    >>> import torch, tconv3d
    >>> up = tconv3d.ConvTranspose3d(8, 4, 2, stride=2, epilogue=tconv3d.Epilogue().relu())
    >>> program = torch.export.export(up, (torch.randn(1, 8, 4, 4, 4),))
    >>> plain = program.run_decompositions(tconv3d.decompositions())
    >>> any("tconv3d" in str(node.target) for node in plain.graph.nodes)
    False
    """
    return {torch.ops.tconv3d.fwd.default: _fwd, torch.ops.tconv3d.fwd.operands: _fwd}


def _fwd(
    src: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    groups: int,
    dilation: list[int],
    epilogue: str,
    operands: Sequence[Tensor] = (),
) -> Tensor:
    dst = torch.conv_transpose3d(src, weight, bias, stride, padding, output_padding, groups, dilation)
    return chain(epilogue, operands)(dst)


def chain(text: str, operands: Sequence[Tensor]) -> Epilogue:
    """The epilogue that has this text, with its tensors."""
    steps, rest = Epilogue(), iter(operands)
    for name, constants in _STEP.findall(text):
        if Step(name).takes_operand:
            steps = getattr(steps, name)(next(rest))
        elif name == "gelu_tanh":
            steps = steps.gelu(approximate="tanh")
        else:
            positional = [float(value) for value in constants.split(",") if value and "=" not in value]
            named = dict(value.split("=") for value in constants.split(",") if "=" in value)
            steps = getattr(steps, name)(*positional, **{key: float(value) for key, value in named.items()})
    return steps
