"""The operator as a function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from . import _library, fallback
from ._arguments import Size3, integer, require_tensor, triple
from .epilogue import Epilogue


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
    epilogue: Epilogue | None = None,
) -> Tensor:
    """``torch.nn.functional.conv_transpose3d``, argument for argument, with an optional fused ``epilogue``.

    ``input`` is (N, C_in, D, H, W) or (C_in, D, H, W), ``weight`` is (C_in, C_out / groups, kD, kH, kW). What tconv3d
    does not implement (other types or devices, vmap, forward AD, …; see ``tconv3d.fallback``) is computed by
    PyTorch's operator, followed by the epilogue in PyTorch's operators.

    >>> import torch, tconv3d
    >>> src, weight = torch.randn(1, 8, 4, 4, 4), torch.randn(8, 4, 3, 3, 3)
    >>> tconv3d.conv_transpose3d(src, weight, stride=2, padding=1, output_padding=1).shape
    torch.Size([1, 4, 8, 8, 8])
    >>> chain = tconv3d.Epilogue().clamp(min=0.0).div(2.0)
    >>> bool((tconv3d.conv_transpose3d(src, weight, epilogue=chain) >= 0).all())
    True
    """
    operands = _operands(epilogue)
    if has_torch_function((input, weight, bias, *operands)):
        arguments = (input, weight, bias, stride, padding, output_padding, groups, dilation)
        return _overridden((input, weight, bias, *operands), arguments, epilogue)
    require_tensor("input", input)
    require_tensor("weight", weight)
    if bias is not None:
        require_tensor("bias", bias)
    parameters = (
        triple("stride", stride),
        triple("padding", padding),
        triple("output_padding", output_padding),
        integer("groups", groups),
        triple("dilation", dilation),
    )
    if fallback.reason(input, weight, bias, operands) is not None:
        dst = fallback.torch_conv_transpose3d(input, weight, bias, *parameters)
        return dst if epilogue is None else epilogue(dst)

    _library.require()
    _check_shape(input)
    text = "" if epilogue is None else epilogue.text
    if input.dim() == 5:
        return _fwd(input, weight, bias, *parameters, text, operands)
    batched = [operand if operand.dim() == 1 else operand.unsqueeze(0) for operand in operands]
    return _fwd(input.unsqueeze(0), weight, bias, *parameters, text, batched).squeeze(0)


def _fwd(*arguments: Any) -> Tensor:
    """`torch.ops.tconv3d.fwd`, which has an overload without operands."""
    fwd = torch.ops.tconv3d.fwd
    return fwd.operands(*arguments) if arguments[-1] else fwd.default(*arguments[:-1])  # type: ignore[no-any-return]


def _operands(epilogue: Epilogue | None) -> list[Tensor]:
    if epilogue is None:
        return []
    if not isinstance(epilogue, Epilogue):
        raise TypeError(f"conv_transpose3d(): argument 'epilogue' must be tconv3d.Epilogue, not {epilogue!r}")
    return list(epilogue.operands)


def _check_shape(input: Tensor) -> None:
    if input.dim() not in (4, 5):
        raise RuntimeError(
            "Expected 4D (unbatched) or 5D (batched) input to conv_transpose3d, "
            f"but got input of size: {list(input.shape)}"
        )
    if not fallback.is_tracing() and 0 in input.shape[-3:]:
        raise RuntimeError(f"Expected input with voxels to conv_transpose3d, but got size: {list(input.shape)}")


def _overridden(relevant: tuple[Any, ...], arguments: tuple[Any, ...], epilogue: Epilogue | None) -> Tensor:
    """Hands the call to the tensors' ``__torch_function__`` or to the active TorchFunctionMode."""
    try:
        dst: Tensor = handle_torch_function(conv_transpose3d, relevant, *arguments, epilogue=epilogue)
        return dst
    except TypeError as error:
        # A type that answers only for the functions it knows has never heard of ours, but may know PyTorch's.
        if not str(error).startswith("no implementation found for"):
            raise
    dst = fallback.torch_conv_transpose3d(*arguments)
    return dst if epilogue is None else epilogue(dst)


# TorchScript, which cannot compile a choice made in Python, compiles calls without an epilogue as PyTorch's operator.
torch.jit._builtins._register_builtin(conv_transpose3d, "aten::conv_transpose3d")
