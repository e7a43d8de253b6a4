"""KernelBench level 2, problem 50: 3D transposed convolution, scale, average pool, add a bias, scale.

The first scale is a parameter; the convolution multiplies by it as it stores, by the same value for each channel.
"""

import torch
from torch import Tensor, nn

import tconv3d

batch_size = 128
in_channels = 3
out_channels = 16
kernel_size = 3
depth, height, width = 16, 32, 32
stride = 2
padding = 1
scale1 = 0.5
scale2 = 1.0
bias_shape = (out_channels, 1, 1, 1)


class ModelNew(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        scale1: float,
        scale2: float,
        bias_shape: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.conv_transpose = tconv3d.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.scale1 = nn.Parameter(torch.tensor(scale1))
        self.avg_pool = nn.AvgPool3d(kernel_size=2)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scale2 = nn.Parameter(torch.tensor(scale2))

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv_transpose
        chain = tconv3d.Epilogue().channel_mul(self.scale1.expand(conv.out_channels))
        x = tconv3d.conv_transpose3d(x, conv.weight, conv.bias, conv.stride, conv.padding, epilogue=chain)
        return (self.avg_pool(x) + self.bias) * self.scale2


def get_inputs() -> list[Tensor]:
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs() -> list[object]:
    return [in_channels, out_channels, kernel_size, stride, padding, scale1, scale2, bias_shape]
