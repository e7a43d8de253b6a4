"""The operator as a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from . import _library, fallback
from ._activations import EpilogueLike, as_epilogue
from ._arguments import Parameters, Size3, require_tensor
from .epilogue import Epilogue, Step

_library.load()
#: The operator without and with operands, found once: the way through torch.ops takes longer than the checks below.
_FWD: Any = torch.ops.tconv3d.fwd.default if _library.failure is None else None
_FWD_OPERANDS: Any = torch.ops.tconv3d.fwd.operands if _library.failure is None else None


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size3 = 1,
    padding: Size3 = 0,
    output_padding: Size3 = 0,
    groups: int = 1,
    dilation: Size3 = 1,
    *,
    epilogue: EpilogueLike | None = None,
) -> Tensor:
    """``torch.nn.functional.conv_transpose3d``, argument for argument, with an optional fused ``epilogue``.

    ``input`` is (N, C_in, D, H, W) or (C_in, D, H, W), ``weight`` is (C_in, C_out / groups, kD, kH, kW). ``epilogue``
    is an ``Epilogue``, or an activation of PyTorch that it has a step for: ``nn.ReLU()``, ``F.silu``, an
    ``nn.Sequential`` of such modules. What tconv3d does not implement (other types or devices, vmap, forward AD, …;
    see ``tconv3d.fallback``) is computed by PyTorch's operator, followed by the epilogue in PyTorch's operators.

    >>> import torch, tconv3d
    >>> src, weight = torch.randn(1, 8, 4, 4, 4), torch.randn(8, 4, 3, 3, 3)
    >>> tconv3d.conv_transpose3d(src, weight, stride=2, padding=1, output_padding=1).shape
    torch.Size([1, 4, 8, 8, 8])
    >>> chain = tconv3d.Epilogue().clamp(min=0.0).div(2.0)
    >>> bool((tconv3d.conv_transpose3d(src, weight, epilogue=chain) >= 0).all())
    True
    >>> bool((tconv3d.conv_transpose3d(src, weight, epilogue=torch.nn.ReLU()) >= 0).all())
    True
    """
    parameters = (stride, padding, output_padding, groups, dilation)
    if epilogue is None:
        return call(input, weight, bias, parameters)
    chain = as_epilogue(epilogue, "conv_transpose3d(): argument 'epilogue'")
    return call(input, weight, bias, parameters, chain.steps, chain.text, chain.bound_operands())


def call(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    parameters: tuple[Any, ...],
    steps: tuple[Step, ...] = (),
    text: str = "",
    operands: Sequence[Tensor] = (),
) -> Tensor:
    """`conv_transpose3d` with stride, padding, output_padding, groups and dilation in `parameters`, and the epilogue
    in parts, so that a module checks the one and makes the text of the other once."""
    if has_torch_function((input, weight, bias, *operands)):
        return _overridden(input, weight, bias, parameters, steps, text, operands)
    if type(parameters) is not Parameters:
        parameters = Parameters.checked(*parameters)
    if not fallback.is_plain(input, weight, bias, operands):
        _require_tensors(input, weight, bias)
        if fallback.reason(input, weight, bias, operands) is not None:
            return by_pytorch(input, weight, bias, parameters, steps, text, operands)
        if not fallback.is_tracing():
            _check_shape(input)
    _library.require()
    rank = input.dim()
    if rank != 5 and rank != 4:
        _check_shape(input)
    if operands and "residual" in text:
        operands = [
            _in_five_dimensions(operand, rank) if step.takes_residual else operand
            for step, operand in zip((step for step in steps if step.takes_operand), operands)
        ]
    batch = input if rank == 5 else input.unsqueeze(0)
    dst: Tensor = (
        _FWD_OPERANDS(batch, weight, bias, *parameters, text, operands)
        if operands
        else _FWD(batch, weight, bias, *parameters, text)
    )
    return dst if rank == 5 else dst.squeeze(0)


def _check_shape(input: Tensor) -> None:
    if input.dim() not in (4, 5):
        raise RuntimeError(
            "Expected 4D (unbatched) or 5D (batched) input to conv_transpose3d, "
            f"but got input of size: {list(input.shape)}"
        )
    if not fallback.is_tracing() and 0 in input.shape[-3:]:
        raise RuntimeError(f"Expected input with voxels to conv_transpose3d, but got size: {list(input.shape)}")


def _require_tensors(input: Any, weight: Any, bias: Any) -> None:
    require_tensor("input", input)
    require_tensor("weight", weight)
    if bias is not None:
        require_tensor("bias", bias)


def _in_five_dimensions(residual: Tensor, rank: int) -> Tensor:
    """With the dimensions of size 1 that broadcasting to an output of `rank` dimensions and a batch adds."""
    missing = 5 - residual.dim()
    if residual.dim() > rank:
        raise RuntimeError(
            f"expected a residual of the epilogue to broadcast to the output's {rank} dimensions, but its size is "
            f"{list(residual.shape)}"
        )
    return residual if missing == 0 else residual[(None,) * missing]


def by_pytorch(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    parameters: tuple[Any, ...],
    steps: tuple[Step, ...] = (),
    text: str = "",
    operands: Sequence[Tensor] = (),
) -> Tensor:
    """`call` in PyTorch's operators."""
    dst = fallback.torch_conv_transpose3d(input, weight, bias, *parameters)
    return Epilogue(steps, tuple(operands))(dst) if steps else dst


def _overridden(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    parameters: tuple[Any, ...],
    steps: tuple[Step, ...],
    text: str,
    operands: Sequence[Tensor],
) -> Tensor:
    """Hands the call to the tensors' ``__torch_function__`` or to the active TorchFunctionMode."""
    epilogue = Epilogue(steps, tuple(operands)) if steps else None
    relevant, arguments = (input, weight, bias, *operands), (input, weight, bias, *parameters)
    try:
        dst: Tensor = handle_torch_function(conv_transpose3d, relevant, *arguments, epilogue=epilogue)
        return dst
    except TypeError as error:
        # A type that answers only for the functions it knows has never heard of ours, but may know PyTorch's.
        if not str(error).startswith("no implementation found for"):
            raise
    return by_pytorch(input, weight, bias, parameters, steps, text, operands)


# TorchScript, which cannot compile a choice made in Python, compiles calls without an epilogue as PyTorch's operator.
torch.jit._builtins._register_builtin(conv_transpose3d, "aten::conv_transpose3d")
