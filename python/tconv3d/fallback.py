"""Which calls are tconv3d's, and why the others go to PyTorch's operator.

>>> import torch
>>> from tconv3d import fallback
>>> fallback.reason(torch.randn(1, 2, 3, 3, 3), torch.randn(2, 2, 3, 3, 3))
>>> fallback.reason(torch.ones(1, 2, 3, 3, 3, dtype=torch.int64), torch.randn(2, 2, 3, 3, 3))
'input is int64; tconv3d computes in float32, float64, bfloat16, float16'
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _library

__all__ = ["reason", "torch_conv_transpose3d"]

#: PyTorch's own operator, whatever torch.nn.functional.conv_transpose3d is bound to (tconv3d.enable rebinds it).
torch_conv_transpose3d = torch.conv_transpose3d

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_PLAIN = (Tensor, torch.nn.Parameter)
_STRIDED = torch.strided
#: Found once, because every call asks.
_has_transforms, _tracing_state = torch._C._are_functorch_transforms_active, torch._C._get_tracing_state

if "2.4" <= torch.__version__ < "2.6":

    def _has_transforms() -> bool:
        """There torch.compile cannot trace PyTorch's function. It calls this one and guards what it depends on."""
        return torch._C._are_functorch_transforms_active()

    _has_transforms._dynamo_marked_constant = True  # type: ignore[attr-defined]


def reason(input: Tensor, weight: Tensor, bias: Tensor | None = None, operands: Sequence[Tensor] = ()) -> str | None:
    """Why tconv3d leaves this call to PyTorch; None when it takes it. `operands` are the tensors of an epilogue."""
    if _exports_to_onnx(input):
        return "torch.onnx exports the call, and ONNX has PyTorch's operators alone"
    if _has_transforms():
        return "a torch.func transform (vmap, grad, jvp, …) is active"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation is active"
    tensors = (input, weight, *operands) if bias is None else (input, weight, bias, *operands)
    for index, tensor in enumerate(tensors):
        if not _is_ours(tensor):
            return _tensor_reason(_name(index, bias is not None), tensor)
    if not is_tracing() and input.dim() == 5 and input.shape[0] == 0 and 0 in input.shape[2:]:
        return f"input has neither batch nor voxels: its shape is {list(input.shape)}"
    return None


def is_tracing() -> bool:
    """Whether torch.jit.trace records the call: sizes are tensors then, which Python code should not look at."""
    return _tracing_state() is not None


def _exports_to_onnx(input: Tensor) -> bool:
    """Whether torch.onnx.export is tracing. Both exporters say so, but asking is slow: one always has torch.jit.trace
    at work, the other one fake tensors."""
    return (is_tracing() or type(input) not in _PLAIN) and torch.onnx.is_in_onnx_export()


def is_plain(input: Tensor, weight: Tensor, bias: Tensor | None, operands: Sequence[Tensor]) -> bool:
    """Whether the call is so usual that it is tconv3d's without further questions. This is on the path of every call:
    where it says no, `reason` decides."""
    dtype = input.dtype if type(input) in _PLAIN else None
    return (
        dtype in _DTYPES
        and type(weight) in _PLAIN
        and weight.dtype is dtype
        and weight.layout is _STRIDED
        and (bias is None or (type(bias) in _PLAIN and bias.dtype is dtype))
        and input.layout is _STRIDED
        and not input.is_nested
        and (input.is_cpu or (input.is_cuda and _library.cuda_failure() is None))
        and not _has_transforms()
        and forward_ad._current_level < 0
        and (not operands or _are_plain(operands, dtype))
        and _tracing_state() is None
        and input.numel() != 0
    )


def _are_plain(operands: Sequence[Tensor], dtype: torch.dtype | None) -> bool:
    """Whether `reason` has nothing to say of an epilogue's tensors, because they are like the input."""
    for operand in operands:
        if (
            type(operand) not in _PLAIN
            or operand.dtype is not dtype
            or operand.layout is not _STRIDED
            or operand.is_nested
            or not (operand.is_cpu or operand.is_cuda)
        ):
            return False
    return True


def _is_ours(tensor: Tensor) -> bool:
    """Whether `_tensor_reason` has nothing to say."""
    return (
        (type(tensor) in _PLAIN or not _dispatches_itself(tensor))
        and tensor.dtype in _DTYPES
        and tensor.layout is _STRIDED
        and not tensor.is_nested
        and (tensor.is_cpu or tensor.is_meta or (tensor.is_cuda and _library.cuda_failure() is None))
    )


def _name(index: int, has_bias: bool) -> str:
    names = ("input", "weight", "bias") if has_bias else ("input", "weight")
    return names[index] if index < len(names) else f"epilogue operand {index - len(names)}"


def _tensor_reason(name: str, tensor: Tensor) -> str:
    if _dispatches_itself(tensor):
        return f"{name} is a {type(tensor).__name__}, which has operators of its own"
    if tensor.is_nested:
        return f"{name} is a nested tensor"
    if tensor.layout != torch.strided:
        return f"{name} is {_word(tensor.layout)}, not dense"
    if tensor.dtype not in _DTYPES:
        return f"{name} is {_word(tensor.dtype)}; tconv3d computes in {', '.join(map(_word, _DTYPES))}"
    if tensor.device.type == "cuda":
        return f"{name} is on {tensor.device}, where tconv3d cannot run: {_library.cuda_failure()}"
    return f"{name} is on {tensor.device}; tconv3d computes on the CPU and on NVIDIA GPUs"


def _dispatches_itself(tensor: Tensor) -> bool:
    """Subclasses with `__torch_dispatch__` (DTensor, quantised weights, …) know PyTorch's operators, not ours."""
    kind = type(tensor)
    if kind in _PLAIN:
        return False
    # PyTorch's own tracing tensors ask each operator for its Meta kernel, which tconv3d has.
    if kind.__module__.startswith(("torch._subclasses.", "torch._functorch.")):
        return False
    return kind.__torch_dispatch__ is not Tensor.__torch_dispatch__


def _word(value: object) -> str:
    return str(value).replace("torch.", "")
