"""The operator as a module."""

# PyTorch's annotations call the module's tuples lists, because TorchScript reads them.
# mypy: disable-error-code="arg-type, attr-defined"
from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from . import _script
from ._arguments import Size3
from .epilogue import Epilogue, Step
from .functional import conv_transpose3d


class ConvTranspose3d(nn.ConvTranspose3d):
    """``torch.nn.ConvTranspose3d`` computed by tconv3d, with an optional fused ``epilogue``.

    Same constructor, parameters, ``state_dict`` and ``forward``. Tensors of the epilogue become part of the module:
    parameters are registered as parameters, other tensors as buffers, named ``epilogue_0``, ``epilogue_1``, ….

    >>> import torch, tconv3d
    >>> up = tconv3d.ConvTranspose3d(8, 4, 3, stride=2, epilogue=tconv3d.Epilogue().relu())
    >>> up
    ConvTranspose3d(8, 4, kernel_size=(3, 3, 3), stride=(2, 2, 2), epilogue=Epilogue().relu())
    >>> up(torch.randn(2, 8, 4, 4, 4), output_size=(10, 10, 10)).shape
    torch.Size([2, 4, 10, 10, 10])
    """

    # On the class, so that a module whose class was changed to this one (tconv3d.accelerate) has it too. Not
    # annotated, because TorchScript evaluates the annotations of a class and does not know this one.
    _epilogue_steps = cast("tuple[Step, ...] | None", None)
    # What TorchScript reads from Python when it compiles a module, and what it does not.
    __constants__: ClassVar[list[str]] = [*nn.ConvTranspose3d.__constants__, "_scripted_epilogue"]  # type: ignore[misc]
    __jit_unused_properties__: ClassVar[list[str]] = ["epilogue", "_scripted_epilogue"]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size3,
        stride: Size3 = 1,
        padding: Size3 = 0,
        output_padding: Size3 = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size3 = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        epilogue: Epilogue | None = None,
    ) -> None:
        channels, spatial = (in_channels, out_channels), (kernel_size, stride, padding, output_padding)
        super().__init__(*channels, *spatial, groups, bias, dilation, padding_mode, device, dtype)
        self.epilogue = epilogue

    @property
    def epilogue(self) -> Epilogue | None:
        """The chain, with the module's present tensors (moved, loaded and trained with it)."""
        if self._epilogue_steps is None:
            return None
        count = sum(step.takes_operand for step in self._epilogue_steps)
        return Epilogue(self._epilogue_steps, tuple(getattr(self, _operand_name(i)) for i in range(count)))

    @epilogue.setter
    def epilogue(self, epilogue: Epilogue | None) -> None:
        if epilogue is not None and not isinstance(epilogue, Epilogue):
            raise TypeError(f"ConvTranspose3d: epilogue must be tconv3d.Epilogue, not {epilogue!r}")
        before = self.epilogue
        for index in range(len(before.operands) if before is not None else 0):
            delattr(self, _operand_name(index))
        self._epilogue_steps = None if epilogue is None else epilogue.steps
        for index, operand in enumerate(epilogue.operands if epilogue is not None else ()):
            if isinstance(operand, nn.Parameter):
                self.register_parameter(_operand_name(index), operand)
            else:
                self.register_buffer(_operand_name(index), operand)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        weight, bias, stride, padding = self.weight, self.bias, self.stride, self.padding
        if torch.jit.is_scripting():
            text, operands = self._scripted_epilogue, self._scripted_operands()
            return _script.conv_transpose3d(
                input, weight, bias, stride, padding, output_padding, self.groups, self.dilation, text, operands
            )
        return conv_transpose3d(
            input, weight, bias, stride, padding, output_padding, self.groups, self.dilation, epilogue=self.epilogue
        )

    @property
    def _scripted_epilogue(self) -> str:
        """The epilogue's text, which becomes a constant of the script."""
        if self.epilogue is None:
            return ""
        if len(self.epilogue.operands) > 8:
            raise ValueError(
                "ConvTranspose3d: torch.jit.script takes an epilogue with at most 8 tensors, "
                f"but this one has {len(self.epilogue.operands)}: {self.epilogue}"
            )
        return self.epilogue.text

    def _scripted_operands(self) -> list[Tensor]:
        """The epilogue's tensors in a script, which finds an attribute by a literal name only."""
        operands: list[Tensor] = []
        if hasattr(self, "epilogue_0"):
            operands.append(self.epilogue_0)
        if hasattr(self, "epilogue_1"):
            operands.append(self.epilogue_1)
        if hasattr(self, "epilogue_2"):
            operands.append(self.epilogue_2)
        if hasattr(self, "epilogue_3"):
            operands.append(self.epilogue_3)
        if hasattr(self, "epilogue_4"):
            operands.append(self.epilogue_4)
        if hasattr(self, "epilogue_5"):
            operands.append(self.epilogue_5)
        if hasattr(self, "epilogue_6"):
            operands.append(self.epilogue_6)
        if hasattr(self, "epilogue_7"):
            operands.append(self.epilogue_7)
        return operands

    def extra_repr(self) -> str:
        text: str = super().extra_repr()  # type: ignore[no-untyped-call]
        return text if self._epilogue_steps is None else f"{text}, epilogue={self.epilogue!r}"


class LazyConvTranspose3d(nn.LazyConvTranspose3d, ConvTranspose3d):  # type: ignore[misc]
    """``torch.nn.LazyConvTranspose3d``, plus ``epilogue``; the first input makes it a ``tconv3d.ConvTranspose3d``.

    >>> import torch, tconv3d
    >>> up = tconv3d.LazyConvTranspose3d(4, kernel_size=2, stride=2)
    >>> up(torch.randn(1, 8, 4, 4, 4)).shape
    torch.Size([1, 4, 8, 8, 8])
    >>> up
    ConvTranspose3d(8, 4, kernel_size=(2, 2, 2), stride=(2, 2, 2))
    """

    cls_to_become = ConvTranspose3d

    def __init__(self, *args: Any, epilogue: Epilogue | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.epilogue = epilogue


def _operand_name(index: int) -> str:
    return f"epilogue_{index}"
