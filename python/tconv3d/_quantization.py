"""PyTorch's eager quantisation of models that hold tconv3d's modules."""

# TorchScript evaluates the annotations of a class, so that its attributes have none.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization import quantization_mappings

from .nn import ConvTranspose3d


class FloatConvTranspose3d(nn.Module):
    """What ``torch.ao.quantization.convert`` makes of a ``tconv3d.ConvTranspose3d``: quantised tensors come in and go
    out, and the module in between computes in float, as ``convert_fx`` does with operators that it does not quantise.

    PyTorch's own quantised transposed convolution is no replacement: it has no epilogue, and its results depend on the
    engine (with ``x86`` and ``onednn``, PyTorch 2.13 is off by more than the largest output).
    """

    __constants__ = ["dtype"]  # noqa: RUF012

    def __init__(self, module: ConvTranspose3d, scale: Tensor, zero_point: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("scale", scale)
        self.register_buffer("zero_point", zero_point)
        self.dtype = dtype

    @classmethod
    def from_float(cls, module: ConvTranspose3d, use_precomputed_fake_quant: bool = False) -> nn.Module:
        """`module` with the scale and zero point that its observer has found; itself where nothing was observed."""
        observer: Any = getattr(module, "activation_post_process", None)
        if observer is None or observer.dtype == torch.float:
            return module
        scale, zero_point = observer.calculate_qparams()
        del module.activation_post_process
        return cls(module, scale, zero_point, observer.dtype)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        # Not a call: convert has moved the module's hooks here, and its observer must not observe any more.
        dst = self.module.forward(input.dequantize(), output_size)
        return torch.quantize_per_tensor(dst, self.scale, self.zero_point, self.dtype)


quantization_mappings.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS[ConvTranspose3d] = FloatConvTranspose3d
