"""The operator as a module."""

# PyTorch's annotations call the module's tuples lists, because TorchScript reads them.
# mypy: disable-error-code="arg-type, attr-defined"
from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from . import _script
from ._activations import EpilogueLike, as_epilogue
from ._arguments import Parameters, Size3
from .epilogue import Epilogue, Step
from .functional import by_pytorch, call

if TYPE_CHECKING:
    from ._fusion import Tail


class ConvTranspose3d(nn.ConvTranspose3d):
    """``torch.nn.ConvTranspose3d`` computed by tconv3d, with an optional fused ``epilogue``.

    Same constructor, parameters, ``state_dict`` and ``forward``. ``epilogue`` is an ``Epilogue``, or an activation of
    PyTorch that it has a step for, as in ``tconv3d.conv_transpose3d``. Tensors of the epilogue become part of the
    module: parameters are registered as parameters, other tensors as buffers, named ``epilogue_0``, ``epilogue_1``, ….
    Open steps get their tensors with each call, as ``operands``.

    >>> import torch, tconv3d
    >>> up = tconv3d.ConvTranspose3d(8, 4, 3, stride=2, epilogue=torch.nn.ReLU())
    >>> up
    ConvTranspose3d(8, 4, kernel_size=(3, 3, 3), stride=(2, 2, 2), epilogue=Epilogue().relu())
    >>> up(torch.randn(2, 8, 4, 4, 4), output_size=(10, 10, 10)).shape
    torch.Size([2, 4, 10, 10, 10])
    >>> up = tconv3d.ConvTranspose3d(8, 4, 2, stride=2, epilogue=tconv3d.Epilogue().residual_add().relu())
    >>> up(torch.randn(2, 8, 4, 4, 4), operands=[torch.randn(2, 4, 8, 8, 8)]).shape
    torch.Size([2, 4, 8, 8, 8])
    """

    # On the class, so that a module whose class was changed to this one (tconv3d.accelerate) has them too. Not
    # annotated, because TorchScript evaluates the annotations of a class and does not know these.
    _epilogue_steps = cast("tuple[Step, ...] | None", None)
    _epilogue_text = ""
    #: The attribute that holds the tensor of each step that has one; None for an open step.
    _epilogue_names = cast("tuple[str | None, ...]", ())
    #: What tconv3d.accelerate(fuse=True) computes behind the epilogue.
    _tail = cast("Tail | None", None)
    #: The five parameters, once they have been checked; forgotten when one is changed.
    _checked_parameters = cast("Parameters | None", None)
    #: Whether PyTorch's operator computes on the CPU, because tconv3d.accelerate expects it to be faster there.
    _leaves_cpu = False
    # What TorchScript reads from Python when it compiles a module, and what it does not; not annotated either.
    __constants__ = [  # noqa: RUF012
        *nn.ConvTranspose3d.__constants__,
        "_leaves_cpu",
        "_scripted_epilogue",
    ]
    __jit_unused_properties__ = ["epilogue", "_scripted_epilogue"]  # noqa: RUF012

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
        epilogue: EpilogueLike | None = None,
    ) -> None:
        channels, spatial = (in_channels, out_channels), (kernel_size, stride, padding, output_padding)
        super().__init__(*channels, *spatial, groups, bias, dilation, padding_mode, device, dtype)
        self.epilogue = epilogue
        self._check_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        # nn.Module would register an activation module as a submodule and never ask the property.
        if name == "epilogue":
            object.__setattr__(self, name, value)
            return
        if name in Parameters._fields:
            self.__dict__.pop("_checked_parameters", None)
        super().__setattr__(name, value)

    def _check_parameters(self) -> None:
        """Checks once what calls would check each time. What is wrong is told by the call, as by PyTorch's module."""
        given = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            self._checked_parameters = Parameters.checked(*given).shortened()

    @property
    def epilogue(self) -> Epilogue | None:
        """The chain, with the module's present tensors (moved, loaded and trained with it)."""
        if self._epilogue_steps is None:
            return None
        tensors = (None if name is None else getattr(self, name) for name in self._epilogue_names)
        return Epilogue(self._epilogue_steps, tuple(tensors))

    @epilogue.setter
    def epilogue(self, epilogue: EpilogueLike | None) -> None:
        chain = None if epilogue is None else as_epilogue(epilogue, "ConvTranspose3d: epilogue")
        for name in self._epilogue_names:
            if name is not None:
                delattr(self, name)
        operands = () if chain is None else chain.operands
        self._epilogue_steps = None if chain is None else chain.steps
        self._epilogue_text = "" if chain is None else chain.text
        self._epilogue_names = tuple(None if each is None else f"epilogue_{i}" for i, each in enumerate(operands))
        for name, operand in zip(self._epilogue_names, operands):
            if isinstance(operand, nn.Parameter):
                self.register_parameter(cast(str, name), operand)
            elif operand is not None:
                self.register_buffer(cast(str, name), operand)

    def forward(
        self, input: Tensor, output_size: list[int] | None = None, operands: list[Tensor] | None = None
    ) -> Tensor:
        """The transposed convolution of `input`; `operands` are the tensors of the epilogue's open steps."""
        if torch.jit.is_scripting():
            assert operands is None
            output_padding = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
            )
            weight, bias, stride, padding = self.weight, self.bias, self.stride, self.padding
            text, tensors = self._scripted_epilogue, self._scripted_operands()
            if self._leaves_cpu and input.is_cpu and text == "":
                return torch.conv_transpose3d(
                    input, weight, bias, stride, padding, output_padding, self.groups, self.dilation
                )
            return _script.conv_transpose3d(
                input, weight, bias, stride, padding, output_padding, self.groups, self.dilation, text, tensors
            )
        parameters: tuple[Any, ...] | None = self._checked_parameters
        if parameters is None or output_size is not None:
            parameters = self._parameters_for(input, output_size)
        compute = by_pytorch if self._leaves_cpu and getattr(input, "is_cpu", False) else call
        weight, bias = self._tensor("weight"), self._tensor("bias")
        steps, text, names = self._epilogue_steps or (), self._epilogue_text, self._epilogue_names
        if operands is not None or self._tail is not None or None in names:
            return compute(input, weight, bias, parameters, *self._chain(operands))
        if not names:
            return compute(input, weight, bias, parameters, steps, text)
        return compute(input, weight, bias, parameters, steps, text, [self._tensor(name) for name in names])

    def extra_repr(self) -> str:
        """The arguments that are not defaults, as PyTorch shows them, and the epilogue."""
        text: str = super().extra_repr()  # type: ignore[no-untyped-call]
        if self._epilogue_steps is not None:
            text += f", epilogue={self.epilogue!r}"
        return text if self._tail is None else f"{text}, {self._tail!r}"

    def _tensor(self, name: str) -> Any:
        """The attribute of that name. A parameter or a buffer is found at once: `nn.Module.__getattr__` takes half a
        microsecond of every call for each of them."""
        for tensors in (self._parameters, self._buffers):
            if name in tensors:
                return tensors[name]
        return getattr(self, name)

    def _parameters_for(self, input: Tensor, output_size: list[int] | None) -> tuple[Any, ...]:
        """As they are now, with the output padding that `output_size` asks for."""
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        return self.stride, self.padding, output_padding, self.groups, self.dilation

    def _chain(self, given: list[Tensor] | Tensor | None) -> tuple[tuple[Step, ...], str, list[Tensor]]:
        """All that is computed behind the convolution: its steps, their text and their tensors."""
        steps, text = self._epilogue_steps or (), self._epilogue_text
        if given is not None or None in self._epilogue_names:
            brought = () if given is None else (given,) if isinstance(given, Tensor) else given
            if not isinstance(brought, (tuple, list)):
                raise TypeError(f"ConvTranspose3d: operands must be a list of tensors, not {brought!r}")
            tensors = (self.epilogue or Epilogue()).bind(*brought).bound_operands()
        else:
            tensors = [self._tensor(name) for name in self._epilogue_names]
        tail = self._tail
        if tail is not None and tail.applies():
            steps, text = (*steps, *tail.steps), f"{text} {tail.text}" if text else tail.text
            if tail.norm is not None:
                tensors += tail.tensors(self.weight)
        return steps, text, tensors

    @property
    def _scripted_epilogue(self) -> str:
        """The epilogue's text, which becomes a constant of the script. torch.jit.trace reads the constants too, but
        records what was called instead of compiling it."""
        if torch.jit._trace._trace_module_map is not None:
            return ""
        if self._tail is not None and (self._tail.norm is not None or not self._tail.applies()):
            fused = "a BatchNorm3d" if self._tail.norm is not None else "modules, changed since,"
            raise ValueError(
                f"ConvTranspose3d: torch.jit.script cannot take {fused} that accelerate(fuse=True) has fused: "
                "call tconv3d.restore(model) and tconv3d.accelerate(model) first"
            )
        if None in self._epilogue_names:
            raise ValueError(
                "ConvTranspose3d: torch.jit.script takes no epilogue whose tensors come with each call, "
                f"but this one is {self.epilogue}"
            )
        if len(self._epilogue_names) > 8:
            raise ValueError(
                "ConvTranspose3d: torch.jit.script takes an epilogue with at most 8 tensors, "
                f"but this one has {len(self._epilogue_names)}: {self.epilogue}"
            )
        return self._epilogue_text if self._tail is None else f"{self._epilogue_text} {self._tail.text}".lstrip()

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

    def __init__(self, *args: Any, epilogue: EpilogueLike | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.epilogue = epilogue
