"""Lets ``torch.utils.flop_counter.FlopCounterMode`` count tconv3d's operators as it counts PyTorch's.

The formulas are PyTorch's own, called with the tensors that its operators would have. Like there, an epilogue, being
pointwise, counts nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry, register_flop_formula

_ops = torch.ops.tconv3d


@register_flop_formula([_ops.fwd, _ops.fwd_saved], get_raw=True)
def _fwd(
    src: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    *epilogue: Any,
    out_val: Any,
) -> int:
    dst = out_val if isinstance(out_val, Tensor) else out_val[0]
    settings = (stride, padding, dilation, True, output_padding, groups)
    return int(flop_registry[torch.ops.aten.convolution](src, weight, bias, *settings, out_val=dst))


@register_flop_formula(_ops.bwd_data, get_raw=True)
def _bwd_data(
    grad_dst: Tensor,
    weight: Tensor,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    *,
    out_val: Tensor,
) -> int:
    settings = (stride, padding, dilation, True, output_padding, groups, [True, False, False])
    return _backward(grad_dst, out_val, weight, settings, (out_val, None, None))


@register_flop_formula(_ops.bwd_weight, get_raw=True)
def _bwd_weight(
    src: Tensor,
    grad_dst: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    with_bias: bool,
    *,
    out_val: tuple[Tensor, Tensor],
) -> int:
    settings = (stride, padding, dilation, True, output_padding, groups, [False, True, with_bias])
    return _backward(grad_dst, src, out_val[0], settings, (None, *out_val))


def _backward(grad_dst: Tensor, src: Tensor, weight: Tensor, settings: tuple[Any, ...], out_val: Any) -> int:
    formula = flop_registry[torch.ops.aten.convolution_backward]
    return int(formula(grad_dst, src, weight, None, *settings, out_val=out_val))
