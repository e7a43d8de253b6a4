"""What TorchScript compiles in the place of a module's call.

TorchScript cannot compile the choices that `tconv3d.conv_transpose3d` makes in Python, but it can call the operators.
"""

# TorchScript reads comments at the ends of lines, those for mypy too.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import torch
from torch import Tensor


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    groups: int,
    dilation: list[int],
    epilogue: str,
    operands: list[Tensor],
) -> Tensor:
    """`tconv3d.conv_transpose3d` with the epilogue's text and tensors."""
    if not _takes(input):
        if epilogue != "":
            raise RuntimeError(
                "a scripted tconv3d.ConvTranspose3d with an epilogue takes float32, float64, bfloat16 and float16 "
                f"on the CPU and on NVIDIA GPUs, but got {input.dtype} on {input.device}"
            )
        return torch.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation)
    src = input if input.dim() == 5 else input.unsqueeze(0)
    if len(operands) == 0:
        dst = torch.ops.tconv3d.fwd(src, weight, bias, stride, padding, output_padding, groups, dilation, epilogue)
    else:
        shaped = _in_five_dimensions(operands, epilogue)
        dst = torch.ops.tconv3d.fwd(
            src, weight, bias, stride, padding, output_padding, groups, dilation, epilogue, shaped
        )
    return dst if input.dim() == 5 else dst.squeeze(0)


def _takes(input: Tensor) -> bool:
    """What of `tconv3d.fallback.reason` a TorchScript tensor can answer."""
    dtype = input.dtype
    known = dtype == torch.float32 or dtype == torch.float64 or dtype == torch.bfloat16 or dtype == torch.float16
    return known and (input.is_cpu or input.is_cuda or input.is_meta)


def _in_five_dimensions(operands: list[Tensor], epilogue: str) -> list[Tensor]:
    """The operands, in which each residual has the leading dimensions that broadcasting would add."""
    shaped: list[Tensor] = []
    for step in epilogue.split(" "):
        if step.startswith("channel_"):
            shaped.append(operands[len(shaped)])
        elif step.startswith("residual_"):
            residual = operands[len(shaped)]
            while residual.dim() < 5:
                residual = residual.unsqueeze(0)
            shaped.append(residual)
    return shaped
