"""KernelBench level 2, problem 100: 3D transposed convolution, clamp from below, divide; one fused kernel."""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 16
in_channels = 64
out_channels = 128
kernel_size = 3
depth, height, width = 24, 48, 48
stride = 2
padding = 1
min_value = -1.0
divisor = 2.0


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        min_value: float,
        divisor: float,
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            epilogue=tconv3d.Epilogue().clamp(min=min_value).div(divisor),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv_transpose(x)


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, min_value, divisor]
